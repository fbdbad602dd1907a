"""What the core of a node's traffic wants done, in order; and what it counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.messages import PageRequest, RoutedMessage
from broker.cluster.traffic.received_range import AppendRange, ReceivedRange, StoreHistories
from broker.event.place import Mark


@attrs.frozen
class SendFrame:
    """Send a frame to a neighbour, or to the `GROUP`."""

    neighbour: str
    frame: Frame


@attrs.frozen
class SendMessage:
    """Send a routed message to a neighbour."""

    neighbour: str
    message: RoutedMessage


@attrs.frozen(eq=False)
class EnterUnit:
    """Match these events against what is inside the unit, in their order, and call `entered`.

    What goes `onward` waits for that. Where it would wait for long, or in vain, call `late`.
    """

    frame: Frame
    received: ReceivedRange | None
    """None: nothing enters, it only stays behind what did before; then call `late`."""
    onward: Mapping[str, Frame]
    """By neighbour: the parts of the frame that are for others."""


@attrs.frozen
class ReadPage:
    """Read a page of the own log for this message, and call `served`."""

    request: PageRequest


@attrs.frozen
class DeliverMessage:
    """A routed message for this node."""

    message: RoutedMessage


@attrs.frozen
class CoverOrigin:
    """Log that of an origin that is new to the log nothing is wanted up to `upto`."""

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
    """Since the start."""

    begun: int = 0
    """Frames of this node's own events."""
    transit: int = 0
    """Frames of others that were passed on."""
    stuck: int = 0
    """Destinations of frames, and messages, to which there was no way."""
    served: int = 0
    """Pages of the log that others asked for."""
    unknown: int = 0
    """Times that somebody asked for a page whose wants are not known here."""
    denied: int = 0
    """Destinations that got less than they wanted, as no way there is cleared for all of it."""


@attrs.frozen
class TrafficSnapshot:
    """How much is remembered."""

    destinations: int
    """Destinations, each counted once for every origin whose events it is sent from here."""
    unit_entries: int
    """Origins, by the units that they enter here."""
    readers: int
    """Nodes that read pages of the own log."""
    incomplete_origins: int
    """Origins of which something is missing here."""
