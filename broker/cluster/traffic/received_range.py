"""A received range, the receiver's effects on it, and its counters."""

from __future__ import annotations

import attrs

from broker.cluster.address import Address
from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.frame_range import Range
from broker.event.flow import origin_of
from broker.event.origin import is_signed_origin
from broker.event.place import Mark, NamedHistory


@attrs.frozen(eq=False)
class ReceivedRange:
    range: Range
    frame: Frame
    index: int
    loss_reason: str = ""
    """Reason of the gap for the unavailable events (`broker.event.gap_reason`); empty: their log
    has removed them."""
    is_carried: bool = False
    """Another transport than that of the network of clusters brought it."""
    is_in_order: bool = False
    """Its transport brings the ranges of a flow in their order: what is missing before it is lost,
    and not under way."""
    is_copy: bool = False
    """Own withheld events (`broker.log.known_flows`), which are logged again."""

    @property
    def is_unproved_announcement(self) -> bool:
        """True if any node may have sent it: it shows no place that exists."""
        origin = origin_of(self.frame.origin)
        is_unproved = self.range.proof is None and not self.is_carried
        return self.range.is_announcement and is_unproved and is_signed_origin(origin)


@attrs.frozen
class AppendRange:
    """Log the events of the range behind `cursor`."""

    received: ReceivedRange
    cursor: Mark


@attrs.frozen
class RequestPage:
    target: Address
    origin: str
    after: Mark
    is_unfiltered: bool = False
    """Other nodes may have dropped this node's interest."""
    path: tuple[NamedHistory, ...] = ()
    """Ends with the history of `after`; empty if unknown."""
    may_drop: bool = False
    """A queue policy of this node's interest may drop events."""
    attempt: int = 0
    """Earlier requests to the node since the position last advanced."""


@attrs.frozen
class StoreHistories:
    """Store the newest histories together with the events that follow."""

    origin: str
    histories: tuple[NamedHistory, ...]


ReceiverEffect = AppendRange | RequestPage | StoreHistories


@attrs.define
class ReceiverCounts:
    taken: int = 0
    duplicate: int = 0
    holes: int = 0
    asked: int = 0
    dropped: int = 0
    """They were behind a missing range, over the limits."""
    gone: int = 0
    """Ranges with events that are in no log any more."""
    failed: int = 0
    given_up: int = 0
    """Missing ranges skipped without an answer."""
    policy_dropped: int = 0
    """Events that a queue policy dropped between nodes."""
