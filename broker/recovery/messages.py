"""Messages between nodes about durable handover and pages of logs (P11, X6).

Events are encoded as chunks of a log (`broker.log.chunks`), one for each run of an origin.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, ClassVar

import attrs

from broker.cluster.address import UnitPath, check_unit
from broker.cluster.messages import register
from broker.cluster.traffic.messages import RoutedMessage
from broker.errors import ProtocolError, WireError
from broker.event.place import Mark
from broker.log.chunks import Chunk, encode_chunk
from broker.log.records import LoggedEvent
from broker.wire import fields
from broker.wire.codec import WirePosition
from broker.wire.messages import NO_ERROR

#: A page has at least one event, however large, but no more than a frame of a link.
MAX_PAGE_BYTES = 1 << 30
_RANKS = 3
_origin = attrgetter("origin")

#: Most durable subscriptions in one message.
MAX_SEARCHED = 512

#: ClientId and name of a durable subscription.
DurableKey = tuple[str, str]
#: By origin a range (after, upto].
WireRanges = tuple[tuple[str, Mark, Mark | None], ...]


def _ranges(value: Any) -> WireRanges:
    return tuple(
        (fields.text(origin), fields.mark(after), None if upto is None else fields.mark(upto))
        for origin, after, upto in value
    )


def _chunks(value: Any) -> tuple[bytes, ...]:
    return tuple(fields.octets(each) for each in value)


def _durable_keys(value: Any) -> tuple[DurableKey, ...]:
    if len(value) > MAX_SEARCHED:
        raise ValueError("too many at once")
    return tuple((fields.text(client_id), fields.text(name)) for client_id, name in value)


def _holders(value: Any) -> tuple[tuple[int, str], ...]:
    return tuple((fields.count(index), fields.address(where)) for index, where in value)


def _optional_unit(value: Any) -> UnitPath | None:
    return None if value is None else check_unit(fields.text_list(value))


def _rank(value: Any) -> int:
    if fields.count(value) >= _RANKS:
        raise ValueError("no rank")
    return int(value)


@register(0x80)
@attrs.frozen
class TakeOver(RoutedMessage):
    """Ask a client's previous node for this durable subscription."""

    request: int = attrs.field(converter=fields.count)
    client_id: str = attrs.field(converter=fields.text)
    name: str = attrs.field(converter=fields.text)
    incarnation: int = attrs.field(converter=fields.count)
    token: bytes = attrs.field(converter=fields.octets, repr=False)


@register(0x81)
@attrs.frozen
class HandedOver(RoutedMessage):
    """The subscription has ended here and stays until `Release`, or an error."""

    request: int = attrs.field(converter=fields.count)
    error: WireError = attrs.field(converter=fields.wire_error, default=NO_ERROR)
    position: WirePosition | None = attrs.field(converter=fields.optional_position, default=None)
    """Processed position; None if the subscription is unknown."""
    moved_to: str = attrs.field(converter=fields.address, default="")
    """Address of the node that has it now; empty if the position is the newest."""


@register(0x82)
@attrs.frozen
class Release(RoutedMessage):
    """Delete the subscription: its client has processed all earlier events."""

    client_id: str = attrs.field(converter=fields.text)
    name: str = attrs.field(converter=fields.text)


@register(0x85)
@attrs.frozen
class Released(RoutedMessage):
    client_id: str = attrs.field(converter=fields.text)
    name: str = attrs.field(converter=fields.text)


#: Name in a `FetchPage` without a client that asks for all logged events of the ranges. An origin's
#: node asks so for its lost events. Nodes of older versions find no such subscription.
EVERYTHING_LOGGED = "*returned"


@register(0x83)
@attrs.frozen
class FetchPage(RoutedMessage):
    """Ask for a page of matching events in these ranges, from a serial of the log on."""

    request: int = attrs.field(converter=fields.count)
    client_id: str = attrs.field(converter=fields.text)
    name: str = attrs.field(converter=fields.text)
    """Name of the client's durable subscription there; the log is complete for it, of any origin.
    Empty: the log is complete only for its own events."""
    pattern: str = attrs.field(converter=fields.text)
    query: str = attrs.field(converter=fields.text)
    namespaces: Mapping[str, str] = attrs.field(converter=fields.texts)
    clearance: int = attrs.field(converter=_rank)
    ranges: WireRanges = attrs.field(converter=_ranges)
    serial: int = attrs.field(converter=fields.count)
    """0: the start of the ranges."""


@register(0x84)
@attrs.frozen
class PageFetched(RoutedMessage):
    """A page, or an error."""

    max_bytes: ClassVar[int] = MAX_PAGE_BYTES

    request: int = attrs.field(converter=fields.count)
    error: WireError = attrs.field(converter=fields.wire_error, default=NO_ERROR)
    reached: WirePosition = attrs.field(converter=fields.position, default=())
    """Marks up to which the ranges were read. Origins that are not named were incomplete, so not
    read."""
    next: int = attrs.field(converter=fields.count, default=0)
    """Serial of the next page; 0: none."""
    rank: int = attrs.field(converter=_rank, default=0)
    """Highest rank of its events."""
    chunks: tuple[bytes, ...] = attrs.field(converter=_chunks, default=(), repr=False)
    begins: WirePosition = attrs.field(converter=fields.position, default=())
    """Marks after which incomplete origins are complete."""
    origin: str = attrs.field(converter=fields.text, default="")
    """Origin of the answering node. No other node can have more of it."""

    @property
    def level(self) -> int:
        """See `RoutedMessage`."""
        return self.rank


@register(0x86)
@attrs.frozen
class FindDurables(RoutedMessage):
    """Ask for durable subscriptions at this node or, with a unit, at all nodes of that unit."""

    request: int = attrs.field(converter=fields.count)
    keys: tuple[DurableKey, ...] = attrs.field(converter=_durable_keys)
    unit: UnitPath | None = attrs.field(converter=_optional_unit)
    within: int = attrs.field(converter=fields.count)
    """Ms until the answer must arrive."""


@register(0x87)
@attrs.frozen
class DurablesFound(RoutedMessage):
    request: int = attrs.field(converter=fields.count)
    found: tuple[tuple[int, str], ...] = attrs.field(converter=_holders)
    """Pairs of an index into `keys` and the address of a node that has the subscription."""
    is_complete: bool = attrs.field(converter=fields.flag)
    """True if all nodes have answered."""


def pack_events(events: Sequence[LoggedEvent]) -> tuple[bytes, ...]:
    return tuple(encode_chunk(list(run)) for _, run in groupby(events, key=_origin))


def unpack_events(chunks: Sequence[bytes]) -> list[LoggedEvent]:
    """Decode the chunks of `pack_events`. Raises `ProtocolError`."""
    found: list[LoggedEvent] = []
    try:
        for data in chunks:
            chunk = Chunk(0, data)
            events = list(chunk.events(0)) if chunk.is_exact else []
            if not events or any(event.level >= _RANKS for event in events):
                raise ValueError("not exact")
            found += events
    except (ValueError, LookupError, struct.error):
        raise ProtocolError("malformed events") from None
    return found
