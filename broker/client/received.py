"""What a client gets: receipts for what it published, events and gaps for what it subscribed."""

from __future__ import annotations

import functools

import attrs
import msgspec

from broker.event.envelope import Event, Header, Liveness
from broker.event.identity import EventId
from broker.event.place import Place, Position
from broker.event.reading import read_event
from broker.wire import messages


@attrs.frozen
class Receipt:
    """A publication is durable, as its stream asks (DESIGN 4, 3)."""

    event_id: EventId
    place: Place | None
    """Where the node put it; None for a duplicate, whose place was told the first time."""
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
        """Identity, the same wherever the event turns up."""
        return self.header.event_id

    @property
    def stream(self) -> str:
        """The stream that it was published on."""
        return self.header.stream

    @functools.cached_property
    def event(self) -> Event:
        """All parts of the event, read on first use."""
        return read_event(self.document)

    @property
    def payload(self) -> bytes | None:
        """The payload element as it stands in the document, or None."""
        return self.event.payload


@attrs.frozen
class Gap:
    """Events that may have matched are gone; never passed over in silence (DESIGN 4, 5)."""

    first: Place
    last: Place
    count: int
    """For `slow` the events dropped; for the others the places, matching or not."""
    reason: str
    """`slow`: the transient subscriber's queue was full. `retention`: the node's log lost it,
    and nobody else could be asked. `lost`: what was missed elsewhere is nowhere to be found."""


@attrs.frozen
class TypeChanged:
    """A newer version of an event type turned up, and touches what the query reads (M16).

    Paths are label paths such as `/flight/leg/@status`, those of the query first.
    """

    type: str
    old: str
    """The newest version that the node knew before."""
    new: str
    effect: str
    """`can-not-match-any-more` and `can-match-now` speak of events of the new version beside those
    of the old one; `reads-what-changed`: it may match both."""
    reason: str
    """For the first two: why the query matches no event of the one version."""
    paths: tuple[str, ...]
    """What the query reads of all that came, went or changed."""
    came: tuple[str, ...]
    went: tuple[str, ...]
    changed: tuple[str, ...]
    """Attributes with other values or another default: path, colon, how."""
    left_out: int
    """How many entries the four lists lack altogether, since there are too many."""

    @classmethod
    def of(cls, message: messages.TypeChanged) -> TypeChanged:
        """What a message says to the subscription with its number."""
        said = msgspec.structs.asdict(message)
        del said["number"]
        return cls(**said)


@attrs.frozen
class Flow:
    """A subscription is flowing: nothing that matches is missed after `cut`."""

    cut: Position


@attrs.frozen
class Start:
    """Where a subscription begins."""

    kind: str
    position: Position = Position()
    time_ms: int = 0
    last: int = 0


#: Only what is published from now on.
NEW = Start("new")
#: Everything that the node still has.
ALL = Start("all")
#: Where the durable subscription of that name was left; `NEW` if it is new.
STORED = Start("stored")


def since(position: Position) -> Start:
    """Whatever follows a position."""
    return Start("position", position=position)


def since_time(time_ms: int) -> Start:
    """Whatever the node logged at or after a time, in ms since 1970."""
    return Start("time", time_ms=time_ms)


def last(count: int) -> Start:
    """The newest `count` events that match, and what follows."""
    return Start("last", last=count)
