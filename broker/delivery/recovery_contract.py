"""Contract between delivery and `broker.recovery` (P11, X6, X8).

Missed events come from the client's previous node, the origins, or the archive. Then the log feeds
the subscription.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import attrs
from twisted.internet.defer import Deferred

from broker.event.event_time import ANY_TIME, EventTimes
from broker.event.place import Mark, Position
from broker.event.stream import StreamPattern
from broker.log.logged_event import LoggedEvent
from broker.matching.query.query import Query
from broker.wire.claim import Claim

#: Behind the first mark, up to the second or the end.
MarkRange: TypeAlias = tuple[Mark, Mark | None]


@attrs.frozen
class HandoverRequest:
    """A client that resumes a durable subscription; its session has authenticated it."""

    client_id: str
    name: str
    incarnation: int
    token: bytes = attrs.field(repr=False)
    previous_address: str = ""
    """The client's statement; it may be wrong."""
    account: tuple[str, str] | None = None
    """Realm and account of the session; None at a node without accounts."""
    proof: Claim | None = None
    """Checked; it lets this node have the subscription."""
    has_position: bool = False
    """True if the client stored a position, and can continue without the previous node."""
    is_stored_here: bool = False
    """True if this node has a position; the client may have used another node since."""
    is_open: Callable[[], bool] = attrs.field(default=lambda: True, eq=False, repr=False)
    """True while the session and the subscription exist."""
    is_connected: Callable[[], bool] = attrs.field(default=lambda: True, eq=False, repr=False)
    """False if the client may be at another node."""


@attrs.frozen
class HandoverResult:
    """State of a durable subscription, taken over from elsewhere."""

    position: Position | None
    """Lower bound of the client's position; None if nodes that may know it did not answer."""
    address: str = ""
    """The previous node, whose log has the missed events. Empty: none."""
    warning: str = ""
    """For the user."""
    is_proven: bool = False
    """True if the client's key shows that the previous node had the subscription."""


@attrs.frozen
class RecoveryRequest:
    """Events that a subscription must get before the log feeds it."""

    pattern: StreamPattern
    query: Query
    clearance: int
    """Rank."""
    ranges: Mapping[str, MarkRange]
    known_ends: Mapping[str, Mark] = attrs.field(factory=dict)
    """Lower bounds of the ends of ranges without an end."""
    all_origins: bool = False
    """True if origins outside `ranges` are requested too, in full."""
    is_open_ended: bool = False
    """True if later events may be recovered too: the log continues behind them."""
    from_ms: int = 0
    until_ms: int = 0
    """Bounds of the arrival time at the origin, ms since 1970, the upper exclusive; 0: none."""
    event_times: EventTimes = ANY_TIME
    """Bounds of the events' own times."""
    last: int = 0
    """Only so many of the newest events; 0: all."""
    number: int = 0
    """The client's."""
    client_id: str = ""
    holder: str = ""
    """Under this name the time of the query counts (`Identity.holder`)."""
    durable_name: str = ""
    previous_address: str = ""
    """A node with all missed events in its log."""
    position: Mapping[str, Mark] = attrs.field(factory=dict)
    """Marks up to which the client has each origin. A range begins earlier if the mark lies on a
    branch that the origin has lost."""
    lost_branches: Mapping[str, Sequence[tuple[Mark, Mark]]] = attrs.field(factory=dict)
    """Lost places by origin. This node's log may have them; it omits their events if the origin
    logged them again."""
    gap_reason: str = "lost"
    """For events that are not found."""


@attrs.frozen
class LostRange:
    """A range behind `after` up to `upto` that can not be recovered."""

    origin: str
    after: Mark
    upto: Mark
    reason: str
    """As in `broker.wire.messages.Gap`."""


class ActiveRecovery(Protocol):
    """An active recovery, in the order of each origin's marks and each publisher's sequence
    numbers."""

    def next_events(self) -> Deferred[Sequence[LoggedEvent]]:
        """Return the next events; none at the end. Fails with a `BrokerError` if it can not
        continue."""

    def preceding_losses(self) -> Sequence[LostRange]:
        """Return the losses before the events returned last, each once."""

    def open_range_ends(self) -> Mapping[str, Mark]:
        """At the end: return how far ranges without an end were read."""

    def remaining_losses(self) -> Sequence[LostRange]:
        """At the end: return all other losses."""

    def cancel(self) -> None:
        """Stop the recovery."""


class RecoveryService(Protocol):
    """Recovery of a node."""

    @property
    def has_archive(self) -> bool:
        """True if there is an archive, which begins before the log."""

    @property
    def has_network(self) -> bool:
        """True if there may be other nodes."""

    def is_too_much_for_log(self, places: int) -> bool:
        """Return whether so many places should come from the archive, not the log."""

    def is_archive_only(self, origin: str) -> bool:
        """Return whether no node has this origin's events, so that only the archive knows its
        end."""

    def start_recovery(self, request: RecoveryRequest) -> ActiveRecovery:
        """Start a recovery."""

    def take_over_durable(self, request: HandoverRequest) -> Deferred[HandoverResult | None]:
        """Take a durable subscription over from its node; None if no node has it."""

    def release_previous_node(self, client_id: str, name: str, address: str) -> None:
        """Tell the previous node that all recovered events are processed."""
