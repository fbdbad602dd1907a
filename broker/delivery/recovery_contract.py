"""What recovery does for a node's subscriptions, as the router sees it (P11, X6, X8).

What a client missed and this node's own log has not, or not all of, is filled in from elsewhere
before the log feeds the subscription: from the node where the client was, from the origins, from
the archive. `broker.recovery` does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import attrs
from twisted.internet.defer import Deferred

from broker.event.place import Mark, Position
from broker.event.stream import StreamPattern
from broker.log.logged_event import LoggedEvent
from broker.matching.query.query import Query

#: Behind the first mark and up to the second; None: all that there is.
MarkRange: TypeAlias = tuple[Mark, Mark | None]


@attrs.frozen
class HandoverRequest:
    """A client that comes with a durable subscription, as its session has proven it to be."""

    client_id: str
    name: str
    """Of the durable subscription."""
    incarnation: int
    token: bytes = attrs.field(repr=False)
    previous_address: str = ""
    """The address of the node where it was last, as the client remembers it; it may be wrong."""
    has_position: bool = False
    """Whether the client remembers how far it has got, too: it can go on without that node."""
    is_stored_here: bool = False
    """Whether this node has a position of it. The client may have been at another node since."""
    is_open: Callable[[], bool] = attrs.field(default=lambda: True, eq=False, repr=False)
    """Whether its session at this node has not ended, and the subscription neither."""
    is_connected: Callable[[], bool] = attrs.field(default=lambda: True, eq=False, repr=False)
    """Whether the client is connected now. If it is not, it may be where the subscription is."""


@attrs.frozen
class HandoverResult:
    """What is known of a durable subscription elsewhere."""

    position: Position | None
    """How far its client has got, at least; None: nobody could be asked who may have it."""
    address: str = ""
    """The node that has handed it over, and whose log has what was for it; empty: none does."""
    warning: str = ""
    """For the client's user."""


@attrs.frozen
class RecoveryRequest:
    """What a subscription is to have before the log feeds it."""

    pattern: StreamPattern
    query: Query
    clearance: int
    """The rank up to which its client is cleared."""
    ranges: Mapping[str, MarkRange]
    """By origin."""
    known_ends: Mapping[str, Mark] = attrs.field(factory=dict)
    """Up to where there is something, at least, of those whose range has no end."""
    all_origins: bool = False
    """Whether all of origins that `ranges` does not name is wanted, too."""
    is_open_ended: bool = False
    """Whether the ends of ranges of other nodes' origins are only how far they are known here: if
    more is there, it may be recovered too, since the log goes on behind what was."""
    from_ms: int = 0
    until_ms: int = 0
    """Arrival at the origin, ms since 1970: not before, and before; 0 is no bound."""
    last: int = 0
    """Only so many, the newest; 0: all."""
    number: int = 0
    """The client's number of the subscription."""
    client_id: str = ""
    durable_name: str = ""
    """Of the durable subscription, where it is one."""
    previous_address: str = ""
    """The address of a node whose log has all of it that was for the client."""
    position: Mapping[str, Mark] = attrs.field(factory=dict)
    """Up to where the client has had each origin. A range may begin before that, where the place
    lies on a branch that the origin has lost."""
    lost_branches: Mapping[str, Sequence[tuple[Mark, Mark]]] = attrs.field(factory=dict)
    """By origin the places that its log has lost, and this node's log may have: it leaves their
    events out where the origin logs them again."""
    gap_reason: str = "lost"
    """What the client is told of what is not found, as the reason of a gap."""


@attrs.frozen
class LostRange:
    """Of an origin, what can not be had any more: behind `after`, up to `upto`."""

    origin: str
    after: Mark
    upto: Mark
    reason: str
    """As in `session.messages.PacketsLost`."""


class ActiveRecovery(Protocol):
    """One recovery under way. Its events come in the order of each origin's marks, and of each
    publisher's sequence numbers."""

    def next_events(self) -> Deferred[Sequence[LoggedEvent]]:
        """The next events; none at the end. Fails with a `BrokerError` where it can not go on."""

    def preceding_losses(self) -> Sequence[LostRange]:
        """Losses whose places lie before the events that `more` returned last; each comes once."""

    def open_range_ends(self) -> Mapping[str, Mark]:
        """At the end: how far those of the ranges went that had no end."""

    def remaining_losses(self) -> Sequence[LostRange]:
        """At the end: all other losses."""

    def cancel(self) -> None:
        """Nobody wants the rest."""


class RecoveryService(Protocol):
    """What a node can recover from."""

    @property
    def has_archive(self) -> bool:
        """Whether there is an archive: then the past begins before the log does."""

    def is_too_much_for_log(self, places: int) -> bool:
        """Whether so many places are rather recovered from the archive than read from the log."""

    def is_archive_only(self, origin: str) -> bool:
        """Whether no node can be asked for this origin's events, so that only the archive knows how
        far it got."""

    def start_recovery(self, request: RecoveryRequest) -> ActiveRecovery:
        """Begin to recover."""

    def take_over_durable(self, request: HandoverRequest) -> Deferred[HandoverResult | None]:
        """Have a durable subscription handed over by whoever has it. None if nobody does."""

    def release_previous_node(self, client_id: str, name: str, address: str) -> None:
        """The client has processed all that was to be recovered: the node where the subscription
        was need not keep it any more."""
