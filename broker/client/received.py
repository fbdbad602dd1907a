"""Results that a client receives: receipts, events, gaps, and where subscriptions start."""

from __future__ import annotations

import functools

import attrs
import msgspec

from broker.event.envelope import Event, Header, Liveness, Validation
from broker.event.event_id import EventId
from broker.event.order_entry import OrderEntry
from broker.event.place import Place, Position
from broker.event.reader import read_event
from broker.wire import messages
from broker.wire.event_batch import Delivered


@attrs.frozen
class Receipt:
    """A publication is durable, as its stream requires (DESIGN 4, 3)."""

    event_id: EventId
    place: Place | None
    """None for a duplicate."""
    duplicate: bool = False


@attrs.frozen(slots=False, eq=False)
class ReceivedEvent:
    place: Place
    header: Header
    liveness: Liveness
    """`recovery` if it was published before the subscription was flowing."""
    document: bytes
    """As its publisher wrote it."""
    order: OrderEntry | None = attrs.field(default=None, kw_only=True)
    """Its place in the order of the stream's sites; None for other streams, and at nodes of
    earlier versions."""

    @classmethod
    def from_delivered(cls, event: Delivered) -> ReceivedEvent:
        return cls(*(event.place, event.header, event.liveness, event.document), order=event.order)

    @property
    def event_id(self) -> EventId:
        return self.header.event_id

    @property
    def stream(self) -> str:
        return self.header.stream

    @property
    def validation(self) -> Validation:
        """Its validation by the origin. Nodes of earlier versions do not tell it."""
        return self.header.validation

    @property
    def time(self) -> int | None:
        """The event's own time as its publisher stated it, ms since 1970; None if it has none."""
        return self.header.time

    @functools.cached_property
    def event(self) -> Event:
        return read_event(self.document)

    @property
    def payload(self) -> bytes | None:
        """The payload element as it is in the document."""
        return self.event.payload


@attrs.frozen
class Gap:
    """Lost events that may have matched (DESIGN 4, 5)."""

    first: Place
    last: Place
    count: int
    """For `slow` and `coalesced` the dropped events; else the places, matching or not."""
    reason: str
    """`slow`: the subscriber's queue was full. `coalesced`: newer events replaced them in the
    queue. `retention`: the node's log has expired
    them, and no other source could be asked. `lost`: no source has them.
    `unreachable`: the node that has them did not come back in time.
    """


@attrs.frozen
class TypeChanged:
    """A new version of an event type affects the query (M16).

    Paths are label paths such as `/flight/leg/@status`; those of the query come first.
    """

    type: str
    old: str
    new: str
    effect: str
    """`can-not-match-any-more` and `can-match-now` compare the new version's events with the old
    ones. `reads-what-changed`: it may match both.
    """
    reason: str
    """Reason for the first two effects."""
    paths: tuple[str, ...]
    """Changed paths that the query reads."""
    came: tuple[str, ...]
    went: tuple[str, ...]
    changed: tuple[str, ...]
    """Attributes with other values or another default: path, colon, change."""
    left_out: int
    """Number of entries that exceed the bounds of the four lists."""

    @classmethod
    def from_message(cls, message: messages.TypeChanged) -> TypeChanged:
        fields = msgspec.structs.asdict(message)
        del fields["number"]
        return cls(**fields)


@attrs.frozen
class FlowStarted:
    """No matching event is missing after `cut`."""

    cut: Position


@attrs.frozen
class Start:
    kind: str
    position: Position = Position()
    time_ms: int = 0
    last: int = 0


NEW = Start("new")
#: All past events of all nodes, if the node has an archive; without one, those in its own log.
ALL = Start("all")
#: The stored position; `NEW` if there is none.
STORED = Start("stored")


def since(position: Position) -> Start:
    return Start("position", position=position)


def since_time(time_ms: int) -> Start:
    """Start at events logged at or after a time, in ms since 1970, of the same logs as `ALL`."""
    return Start("time", time_ms=time_ms)


def last(count: int) -> Start:
    return Start("last", last=count)
