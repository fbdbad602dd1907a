"""Bytes of the packets of the sequencer variant. Consecutive messages of a site are one row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Annotated, Any, TypeAlias

import attrs
import msgspec
from msgspec import Meta

from broker.errors import ProtocolError
from broker.transport.order.effects import Packet
from broker.transport.order.packet import MessageId, Stamp
from broker.transport.order.sequencer.packet import (
    MOST_HEADERS,
    NUMBER_BITS,
    Answer,
    Begin,
    Delivered,
    Epoch,
    Follow,
    Header,
    Known,
    KnownNumbers,
    Left,
    Numbers,
    Places,
    Raised,
    Refusal,
    Request,
    Takeover,
)
from broker.transport.order.sequencer.place_table import MOST_EPOCHS
from broker.transport.order.wire import (
    MAX_NAMES,
    MAX_SITES,
    Incarnation,
    Mask,
    Number,
    Packed,
    PackedMessages,
    PacketCodec,
    Site,
    Time,
)

_Counter: TypeAlias = Annotated[int, Meta(ge=0, lt=2 ** (63 - NUMBER_BITS))]
_Index: TypeAlias = Annotated[int, Meta(ge=0, lt=2**NUMBER_BITS)]
_Depth: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_SITES)]
_Epoch: TypeAlias = tuple[_Counter, Site]
#: Site, incarnation, first number, count, connected sites.
_Row: TypeAlias = tuple[
    Site, Incarnation, Number, Annotated[int, Meta(ge=1, le=MOST_HEADERS)], Mask
]
_Rows: TypeAlias = Annotated[tuple[_Row, ...], Meta(max_length=MOST_HEADERS)]
#: Time and site of the first stamp. The times of further messages of the row follow it.
_Places: TypeAlias = Annotated[tuple[tuple[Time, Site, _Row], ...], Meta(max_length=MOST_HEADERS)]
#: Site, incarnation, highest number.
_Delivered: TypeAlias = Annotated[
    tuple[tuple[Site, Incarnation, Number], ...], Meta(max_length=4 * MAX_NAMES)
]

#: Counter and sequencer of an epoch, number after the highest known one.
_KnownNumbers: TypeAlias = Annotated[
    tuple[tuple[_Counter, Site, _Index], ...], Meta(max_length=MOST_EPOCHS)
]

#: Functions that pack and unpack a field.
_Converter: TypeAlias = tuple[Callable[[Any], Any], Callable[[Any], Any]]

#: Kind, class, and types of the fields.
_FORMATS: tuple[tuple[int, Any, tuple[Any, ...]], ...] = (
    (16, Follow, (_Counter,)),
    (17, Raised, (_Counter,)),
    (18, Takeover, (_Epoch, _Delivered, _KnownNumbers)),
    (19, Answer, (_Epoch, _Delivered, _KnownNumbers, _Places, _Rows)),
    (20, Refusal, (_Epoch, _Counter)),
    (21, Begin, (_Epoch, _Places, _KnownNumbers, Mask)),
    (22, Numbers, (_Epoch, _Index, _Rows)),
    (23, Request, (_Rows,)),
    (24, Known, (_Places, _Depth)),
    (25, Left, (_Counter,)),
)


def _define(kind: int, packet: Any, types: Sequence[Any]) -> Any:
    names = [field.name for field in attrs.fields(packet)]
    fields = list(zip(names, types, strict=True))
    return msgspec.defstruct(packet.__name__, fields, bases=(Packed,), tag=kind, frozen=True)


#: Classes of encoded packets by those of packets.
_PACKED: dict[Any, Any] = {packet: _define(kind, packet, types) for kind, packet, types in _FORMATS}


class SequencerCodec(PacketCodec):
    packed = reduce(or_, _PACKED.values(), PackedMessages)

    def __init__(self, sites: Sequence[str]) -> None:
        super().__init__(sites)
        plain: _Converter = (lambda value: value, lambda value: value)
        converters: dict[Any, _Converter] = {
            _Epoch: (self._pack_epoch, self._unpack_epoch),
            _Delivered: (self._pack_delivered, self._unpack_delivered),
            _KnownNumbers: (self._pack_known, self._unpack_known),
            _Rows: (self._pack_headers, self._unpack_headers),
            _Places: (self._pack_places, self._unpack_places),
            Mask: (self._sites.mask_of, self._unpack_mask),
        }
        self._converters = {
            packet: [converters.get(type, plain) for type in types] for _, packet, types in _FORMATS
        }
        self._packets = {packed: packet for packet, packed in _PACKED.items()}

    def _pack(self, packet: Any) -> Packed:
        fields = attrs.astuple(packet, recurse=False)
        pairs = zip(fields, self._converters[type(packet)], strict=True)
        packed: Packed = _PACKED[type(packet)](*(pack(value) for value, (pack, _) in pairs))
        return packed

    def _unpack(self, packed: Any) -> Packet:
        packet = self._packets[type(packed)]
        pairs = zip(msgspec.structs.astuple(packed), self._converters[packet], strict=True)
        return packet(*(unpack(value) for value, (_, unpack) in pairs))

    # ----------------------------------------------------------------- of fields

    def _pack_epoch(self, epoch: Epoch) -> _Epoch:
        return epoch.counter, self._sites.add(epoch.sequencer)

    def _unpack_epoch(self, packed: _Epoch) -> Epoch:
        return Epoch(packed[0], self._sender.name_of(packed[1]))

    def _pack_delivered(self, delivered: Delivered) -> _Delivered:
        return tuple(
            (self._sites.add(site), incarnation, number)
            for (site, incarnation), number in delivered.items()
        )

    def _unpack_delivered(self, packed: _Delivered) -> Delivered:
        return {
            (self._sender.name_of(site), incarnation): number
            for site, incarnation, number in packed
        }

    def _pack_known(self, known: KnownNumbers) -> _KnownNumbers:
        return tuple((*self._pack_epoch(epoch), number) for epoch, number in known.items())

    def _unpack_known(self, packed: _KnownNumbers) -> KnownNumbers:
        return {self._unpack_epoch((counter, site)): number for counter, site, number in packed}

    def _unpack_mask(self, mask: Mask) -> frozenset[str]:
        return self._sender.names_of(mask)

    def _pack_headers(self, headers: Iterable[Header]) -> _Rows:
        places = ((Stamp(index, ""), header) for index, header in enumerate(headers))
        return tuple(self._pack_row(header, count) for (_, header), count in _rows_of(places))

    def _unpack_headers(self, rows: _Rows) -> tuple[Header, ...]:
        _check_count(rows)
        return tuple(header for row in rows for header in self._unpack_row(row))

    def _pack_places(self, places: Places) -> _Places:
        return tuple(
            (time, self._sites.add(site), self._pack_row(header, count))
            for ((time, site), header), count in _rows_of(places)
        )

    def _unpack_places(self, packed: _Places) -> Places:
        _check_count([row for _, _, row in packed])
        return tuple(
            (Stamp(time, self._sender.name_of(site)), header)
            for first, site, row in packed
            for time, header in enumerate(self._unpack_row(row, first), first)
        )

    def _pack_row(self, header: Header, count: int) -> _Row:
        (site, incarnation, number), connected = header
        mask = self._sites.mask_of(connected)
        return self._sites.add(site), incarnation, number, count, mask

    def _unpack_row(self, row: _Row, time: int = 0) -> Iterator[Header]:
        number_of_site, incarnation, first, count, mask = row
        site, connected = self._sender.name_of(number_of_site), self._sender.names_of(mask)
        if max(time, first) + count > 2**63:
            raise ProtocolError("a number or stamp above 63 bits")
        for number in range(first, first + count):
            yield Header(MessageId(site, incarnation, number), connected)


def _rows_of(places: Iterable[tuple[Stamp, Header]]) -> Iterator[tuple[tuple[Stamp, Header], int]]:
    """Yield the first of messages with consecutive stamps and numbers, and their count."""
    first: tuple[Stamp, Header] | None = None
    count = 0
    for place in places:
        if first is not None and place == _place_after(*first, count):
            count += 1
            continue
        if first is not None:
            yield first, count
        first, count = place, 1
    if first is not None:
        yield first, count


def _place_after(stamp: Stamp, header: Header, count: int) -> tuple[Stamp, Header]:
    id = header.id
    return (
        stamp._replace(time=stamp.time + count),
        header._replace(id=id._replace(number=id.number + count)),
    )


def _check_count(rows: Sequence[_Row]) -> None:
    count = sum(count for _, _, _, count, _ in rows)
    if count > MOST_HEADERS:
        raise ProtocolError(f"a packet with {count} headers")
