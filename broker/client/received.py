"""Results that a client receives: receipts, events, gaps, and where subscriptions start."""

from __future__ import annotations

import functools

import attrs
import msgspec

from broker.event.envelope import Event, Header, Liveness
from broker.event.event_id import EventId
from broker.event.place import Place, Position
from broker.event.reader import read_event
from broker.wire import messages


@attrs.frozen
class Receipt:
    """A publication is durable, as its stream requires (DESIGN 4, 3)."""

    event_id: EventId
    place: Place | None
    """Its place in the log; None for a duplicate, whose place was reported the first time."""
    duplicate: bool = False


@attrs.frozen(slots=False, eq=False)
class ReceivedEvent:
    """An event as a subscription delivers it."""

    place: Place
    header: Header
    liveness: Liveness
    """Effective: `recovery` if it was published before the subscription was flowing."""
    document: bytes
    """The event, byte for byte as its publisher wrote it."""

    @property
    def event_id(self) -> EventId:
        return self.header.event_id

    @property
    def stream(self) -> str:
        return self.header.stream

    @functools.cached_property
    def event(self) -> Event:
        """All parts of the event, parsed on first use."""
        return read_event(self.document)

    @property
    def payload(self) -> bytes | None:
        """The payload element as it is in the document, or None."""
        return self.event.payload


@attrs.frozen
class Gap:
    """Events that may have matched are lost; never skipped silently (DESIGN 4, 5)."""

    first: Place
    last: Place
    count: int
    """For `slow` the dropped events; for other reasons the places, matching or not."""
    reason: str
    """`slow`: the transient subscriber's queue was full. `retention`: the node's log has expired
    them, and no other source could be asked. `lost`: no source has them."""


@attrs.frozen
class TypeChanged:
    """A new version of an event type affects the query (M16).

    Paths are label paths such as `/flight/leg/@status`; those of the query come first.
    """

    type: str
    old: str
    new: str
    effect: str
    """`can-not-match-any-more` and `can-match-now` compare events of the new version with those of
    the old one. `reads-what-changed`: it may match both."""
    reason: str
    """The reason why the query matches no event of one version, for the first two effects."""
    paths: tuple[str, ...]
    """The paths that the query reads and that were added, removed or changed."""
    came: tuple[str, ...]
    went: tuple[str, ...]
    changed: tuple[str, ...]
    """Attributes with other values or another default: path, colon, change."""
    left_out: int
    """Number of entries omitted from the four lists because of their bounds."""

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
    """Start of a subscription."""

    kind: str
    position: Position = Position()
    time_ms: int = 0
    last: int = 0


#: Only new events.
NEW = Start("new")
#: All events that the node still has.
ALL = Start("all")
#: The stored position of the durable subscription; `NEW` if there is none.
STORED = Start("stored")


def since(position: Position) -> Start:
    return Start("position", position=position)


def since_time(time_ms: int) -> Start:
    """Start at events logged at or after a time, in ms since 1970."""
    return Start("time", time_ms=time_ms)


def last(count: int) -> Start:
    """Start at the newest `count` events that match."""
    return Start("last", last=count)
