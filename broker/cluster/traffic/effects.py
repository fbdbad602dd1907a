"""Effects that the core of a node's traffic returns, in order, and its counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

import attrs

from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.messages import PageRequest, RoutedMessage
from broker.cluster.traffic.received_range import AppendRange, ReceivedRange, StoreHistories
from broker.event.place import Mark

#: Neighbours with a count of their own.
MOST_COUNTED = 1_024


@attrs.frozen
class SendFrame:
    """Send a frame, to the multicast group if the neighbour is `GROUP`."""

    neighbour: str
    frame: Frame


@attrs.frozen
class SendMessage:
    neighbour: str
    message: RoutedMessage


@attrs.frozen(eq=False)
class EnterUnit:
    """Match these events against the interest inside a unit, in order, then call `send_into_unit`.

    The onward frames wait for the match. Call `release_onward` where it fails or is slow.
    """

    frame: Frame
    received: ReceivedRange | None
    """None: the onward frames only wait for earlier matches; then call `release_onward`."""
    onward: Mapping[str, Frame]
    """By neighbour, for other destinations."""


@attrs.frozen
class ReadPage:
    """Read a page of this node's log, then call `send_page`."""

    request: PageRequest


@attrs.frozen
class DeliverMessage:
    message: RoutedMessage


@attrs.frozen
class CoverOrigin:
    """Log that this node needs no event of a new origin up to `upto`."""

    origin: str
    upto: Mark


TrafficEffect: TypeAlias = (
    SendFrame
    | SendMessage
    | AppendRange
    | StoreHistories
    | EnterUnit
    | ReadPage
    | DeliverMessage
    | CoverOrigin
)


@attrs.define
class TrafficCounts:
    begun: int = 0
    """Frames with own events."""
    transit: int = 0
    """Forwarded frames."""
    stuck: int = 0
    """Destinations and messages without a route."""
    served: int = 0
    unknown: int = 0
    """Rejected page requests, and frames of nodes outside the map."""
    denied: int = 0
    """Events without a cleared route."""
    unanswered: Counter[str] = attrs.field(factory=Counter)
    """Page requests that were repeated, by the neighbour over which they went before."""

    def record_unanswered(self, neighbour: str | None) -> None:
        """Count a request that had a route; those over further neighbours share one count."""
        if neighbour is None:
            return
        if neighbour not in self.unanswered and len(self.unanswered) >= MOST_COUNTED:
            neighbour = ""
        self.unanswered[neighbour] += 1


@attrs.frozen
class TrafficSnapshot:
    destinations: int
    """A destination counts once for each origin."""
    unit_entries: int
    """Pairs of an origin and a unit that it enters here."""
    readers: int
    incomplete_origins: int
    """Origins with missing ranges."""
