"""What nodes say to each other about roaming clients and what they missed (P11, X6).

Events travel as chunks of a log (`broker.log.chunks`), one for each run of an origin's.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, ClassVar

import attrs

from broker.cluster.address import UnitPath, check_unit
from broker.cluster.flows.messages import Routed
from broker.cluster.messages import register
from broker.errors import ProtocolError, WireError
from broker.event.place import Mark
from broker.log.chunks import Chunk, encode_chunk
from broker.log.records import LoggedEvent
from broker.wire import fields
from broker.wire.codec import WirePosition
from broker.wire.messages import NO_ERROR

#: A page holds one event at least, however large: no longer than a frame of a link may be.
MOST_PAGE = 1 << 30
_RANKS = 3
_origin = attrgetter("origin")

#: A message names no more durable subscriptions that are sought.
MOST_SOUGHT = 512

#: A durable subscription, by ClientId and name.
Wanted = tuple[str, str]
#: Of origins: behind the first mark, and up to the second.
WireRanges = tuple[tuple[str, Mark, Mark | None], ...]


def _ranges(value: Any) -> WireRanges:
    return tuple(
        (fields.text(origin), fields.mark(after), None if upto is None else fields.mark(upto))
        for origin, after, upto in value
    )


def _chunks(value: Any) -> tuple[bytes, ...]:
    return tuple(fields.octets(each) for each in value)


def _wanted(value: Any) -> tuple[Wanted, ...]:
    if len(value) > MOST_SOUGHT:
        raise ValueError("too many at once")
    return tuple((fields.text(client_id), fields.text(name)) for client_id, name in value)


def _found(value: Any) -> tuple[tuple[int, str], ...]:
    return tuple((fields.count(index), fields.address(where)) for index, where in value)


def _optional_unit(value: Any) -> UnitPath | None:
    return None if value is None else check_unit(fields.text_list(value))


def _rank(value: Any) -> int:
    if fields.count(value) >= _RANKS:
        raise ValueError("no rank")
    return int(value)


@register(0x80)
@attrs.frozen
class TakeOver(Routed):
    """To a node where a client may have been: it is here now, with this durable subscription."""

    request: int = attrs.field(converter=fields.count)
    client_id: str = attrs.field(converter=fields.text)
    name: str = attrs.field(converter=fields.text)
    incarnation: int = attrs.field(converter=fields.count)
    token: bytes = attrs.field(converter=fields.octets, repr=False)


@register(0x81)
@attrs.frozen
class HandedOver(Routed):
    """The subscription was cancelled, and is kept until `Release`; or why it was not."""

    request: int = attrs.field(converter=fields.count)
    error: WireError = attrs.field(converter=fields.wire_error, default=NO_ERROR)
    position: WirePosition | None = attrs.field(converter=fields.optional_position, default=None)
    """How far it was processed; None: it is not known there."""
    moved_to: str = attrs.field(converter=fields.address, default="")
    """The address of the node that has it now; empty: the position is the newest."""


@register(0x82)
@attrs.frozen
class Release(Routed):
    """The client has processed all that came before it was here: keep it no more."""

    client_id: str = attrs.field(converter=fields.text)
    name: str = attrs.field(converter=fields.text)


@register(0x85)
@attrs.frozen
class Released(Routed):
    """The answer: it is kept no more."""

    client_id: str = attrs.field(converter=fields.text)
    name: str = attrs.field(converter=fields.text)


#: As the name in `FetchPage`, without a client: whatever the log has of the ranges. The node of an
#: origin asks so for own events that it has lost; older nodes know no such subscription.
RETURNED = "*returned"


@register(0x83)
@attrs.frozen
class FetchPage(Routed):
    """Send what matches of these ranges, from a serial of your log on, as much as makes a page."""

    request: int = attrs.field(converter=fields.count)
    client_id: str = attrs.field(converter=fields.text)
    name: str = attrs.field(converter=fields.text)
    """Of the durable subscription that was wanted there, with `client_id`: the log has all that is
    for it, of whatever origin. Empty: it has all of its own events alone."""
    pattern: str = attrs.field(converter=fields.text)
    query: str = attrs.field(converter=fields.text)
    namespaces: Mapping[str, str] = attrs.field(converter=fields.texts)
    clearance: int = attrs.field(converter=_rank)
    ranges: WireRanges = attrs.field(converter=_ranges)
    serial: int = attrs.field(converter=fields.count)
    """0: wherever the ranges begin."""


@register(0x84)
@attrs.frozen
class PageFetched(Routed):
    """A page, or why there is none."""

    most: ClassVar[int] = MOST_PAGE

    request: int = attrs.field(converter=fields.count)
    error: WireError = attrs.field(converter=fields.wire_error, default=NO_ERROR)
    reached: WirePosition = attrs.field(converter=fields.position, default=())
    """Up to where the ranges were looked at; of origins that are not named nothing was, for not all
    of it is there."""
    next: int = attrs.field(converter=fields.count, default=0)
    """The serial at which the next page begins; 0: there is none."""
    rank: int = attrs.field(converter=_rank, default=0)
    """The highest of its events."""
    chunks: tuple[bytes, ...] = attrs.field(converter=_chunks, default=(), repr=False)
    begins: WirePosition = attrs.field(converter=fields.position, default=())
    """Of origins of which there is less than was asked for: all from behind these marks on."""
    origin: str = attrs.field(converter=fields.text, default="")
    """Of the log of the node that answers: of this one nobody else can have more."""

    @property
    def level(self) -> int:
        """See `Routed`."""
        return self.rank


@register(0x86)
@attrs.frozen
class Seek(Routed):
    """Who has these durable subscriptions: you, or, with a unit, any node of that one, which you
    are in?"""

    request: int = attrs.field(converter=fields.count)
    wanted: tuple[Wanted, ...] = attrs.field(converter=_wanted)
    unit: UnitPath | None = attrs.field(converter=_optional_unit)
    within: int = attrs.field(converter=fields.count)
    """Ms: a later answer is of no use."""


@register(0x87)
@attrs.frozen
class Sought(Routed):
    """The answer."""

    request: int = attrs.field(converter=fields.count)
    found: tuple[tuple[int, str], ...] = attrs.field(converter=_found)
    """By the index of what was wanted, the address of the node that has it."""
    whole: bool = attrs.field(converter=fields.flag)
    """Whether all nodes have answered that were to be asked."""


def pack_events(events: Sequence[LoggedEvent]) -> tuple[bytes, ...]:
    """Events as chunks."""
    return tuple(encode_chunk(list(run)) for _, run in groupby(events, key=_origin))


def unpack_events(chunks: Sequence[bytes]) -> list[LoggedEvent]:
    """The events that `pack_events` packed; `ProtocolError` if they are none."""
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
