"""Record of one simulated run of an order, for the checker."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple, TypeAlias

import attrs

from broker.testing.order.timers import Timers
from broker.transport.order import MessageId, OrderSettings, Place, Stamp
from broker.transport.view import LinkState

#: A site and its incarnation.
Process: TypeAlias = tuple[str, int]


class Delivery(NamedTuple):
    time: float
    id: MessageId
    stamp: Stamp
    late: Place | None


class Moved(NamedTuple):
    """A delivered message that got another place."""

    time: float
    id: MessageId
    before: Stamp | None
    stamp: Stamp
    late: Place | None
    #: Deliveries before it.
    position: int


class Sent(NamedTuple):
    time: float
    #: Sites for which the outcome was not ABSENT.
    destinations: frozenset[str]
    #: Seconds from its stamp to its sending.
    commit: float = 0.0


class Status(NamedTuple):
    """A status as the client of a site gets it."""

    time: float
    process: Process
    peer: str
    state: LinkState
    reason: str
    #: Deliveries before it.
    position: int


class Missing(NamedTuple):
    """A range of numbers of a sender that is reported as missing."""

    time: float
    process: Process
    sender: Process
    first: int
    last: int


@attrs.define
class Run:
    """All that happened in a run. Times are virtual seconds."""

    variant: str
    sites: tuple[str, ...]
    settings: OrderSettings
    timers: Timers
    #: Highest delay of one packet, and difference of two site clocks, without disturbance.
    delay: float
    skew: float
    end: float = 0.0
    #: Messages may be references to bodies that come another way.
    shares_bodies: bool = False
    sent: dict[MessageId, Sent] = attrs.field(factory=dict)
    received: dict[Process, dict[MessageId, float]] = attrs.field(factory=lambda: defaultdict(dict))
    deliveries: dict[Process, list[Delivery]] = attrs.field(factory=lambda: defaultdict(list))
    moves: dict[Process, list[Moved]] = attrs.field(factory=lambda: defaultdict(list))
    statuses: list[Status] = attrs.field(factory=list)
    missing: list[Missing] = attrs.field(factory=list)
    #: Begins and ends of commits.
    commits: dict[Process, list[tuple[float, float]]] = attrs.field(
        factory=lambda: defaultdict(list)
    )
    #: Time, process, and whether it started or ended.
    lives: list[tuple[float, Process, bool]] = attrs.field(factory=list)
    #: Time and direction of a path that became silent or was repaired.
    paths: list[tuple[float, str, str, bool]] = attrs.field(factory=list)
    #: Time and ends of a connection that broke.
    breaks: list[tuple[float, str, str]] = attrs.field(factory=list)
    #: Begin, end and direction of high delays.
    slow: list[tuple[float, float, str, str]] = attrs.field(factory=list)
    #: Errors of packets, which no simulated site makes.
    failures: list[tuple[float, Process, str]] = attrs.field(factory=list)
    #: Time at which a site counted another one as a site of the group, of those that joined.
    joins: dict[tuple[str, str], float] = attrs.field(factory=dict)
    #: Sites that are not there from the beginning.
    newcomers: tuple[str, ...] = ()
    #: Sites that have left. For them the run ends with the first site that knows it.
    left: set[str] = attrs.field(factory=set)
    #: The sites of the group as each site knows them at the end.
    members: dict[str, frozenset[str]] = attrs.field(factory=dict)

    def joined(self, one: str, other: str) -> float:
        """Return the time from which on two sites count each other as sites of the group."""
        pairs = (one, other), (other, one)
        if not {one, other} & {*self.newcomers}:
            return 0.0
        return max(self.joins.get(pair, float("inf")) for pair in pairs)
