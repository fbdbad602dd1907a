"""Record of a run of sites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import attrs

from broker.transport.order import MessageId
from broker.transport.view import LinkState


class Delivery(NamedTuple):
    time: float
    id: MessageId
    latency: float
    """Seconds since the message was sent."""
    is_late: bool


class Status(NamedTuple):
    """State of a peer, as a site reports it from this time on."""

    time: float
    site: str
    peer: str
    state: LinkState
    reason: str


#: From the loss of a link to its repair.
Outage: TypeAlias = tuple[float, float]
Pair: TypeAlias = tuple[str, str]


@attrs.define
class Record:
    sent: dict[MessageId, float] = attrs.field(factory=dict)
    deliveries: dict[str, list[Delivery]] = attrs.field(factory=dict)
    """By receiving site, own messages included."""
    statuses: list[Status] = attrs.field(factory=list)
    outages: dict[Pair, list[Outage]] = attrs.field(factory=dict)
    errors: list[str] = attrs.field(factory=list)
    """Faults that no correct site makes."""

    def statuses_of(self, site: str, peer: str) -> Sequence[Status]:
        return [each for each in self.statuses if (each.site, each.peer) == (site, peer)]


def share_not_disconnected(statuses: Sequence[Status], begin: float, end: float) -> float:
    """Return the part of a time in which a site could send to a peer (RCM R11)."""
    state, since, lost = LinkState.DISCONNECTED, begin, 0.0
    for status in (*statuses, None):
        until = end if status is None else min(max(status.time, begin), end)
        if state is LinkState.DISCONNECTED:
            lost += until - since
        since = until
        state = state if status is None else status.state
    return 1.0 - lost / (end - begin)
