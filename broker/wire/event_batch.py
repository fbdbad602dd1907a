"""The two messages that carry events: a publisher's batch, and a node's delivery.

`docs/protocols/session.md` has the bytes. The events' unchanged bytes are behind a header with
their lengths: routing reads no document (M18). With `previous` the client distinguishes filtered
events from lost ones (D30).
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, TypeAlias

import attrs
import msgpack
import msgspec

from broker.errors import ProtocolError
from broker.event.envelope import Header, Liveness
from broker.event.order_entry import OrderEntry, decode_entry_fields, decode_order_entry
from broker.event.place import Place
from broker.event.record import ANNOTATED, PROVED, RECORD_FIELDS, join_record, split_record
from broker.log.logged_event import (
    LoggedEvent,
    header_from_fields,
    may_state_more,
    with_liveness_only,
)
from broker.transport.shared_message import SharedMessage
from broker.wire.codec import Count, Epoch, Offset
from broker.wire.messages import DELIVER, PUBLISH

_PUBLISH = struct.Struct(">BI")
_DELIVER = struct.Struct(">BII")
_origin = attrgetter("origin")
PLAIN = 0
#: Most events of a message: a small one can not announce a huge list.
MAX_EVENTS = 65_536

_Length: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
_Run: TypeAlias = tuple[Count, tuple[int, ...]]
_Places: TypeAlias = tuple[str, Epoch, Offset, Count]
_Header: TypeAlias = tuple[
    int,
    str,
    tuple[str, Epoch, Offset] | None,
    tuple[_Run, ...],
    tuple[_Places, ...],
    Annotated[tuple[_Length, ...], msgspec.Meta(max_length=MAX_EVENTS)],
]
_Lengths: TypeAlias = Annotated[tuple[Count, ...], msgspec.Meta(max_length=MAX_EVENTS)]
_Times: TypeAlias = Annotated[tuple[int | None, ...], msgspec.Meta(max_length=MAX_EVENTS)]


class _PublishHeader(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    number: Offset
    encoding: int
    lengths: _Lengths
    times: _Times = ()


_pack = msgspec.msgpack.Encoder().encode
_publish_header = msgspec.msgpack.Decoder(_PublishHeader).decode
_deliver_header = msgspec.msgpack.Decoder(_Header).decode


@attrs.frozen(slots=True)
class Batch:
    """A publisher's batch; `number` rises by one."""

    number: int
    documents: list[bytes]
    times: tuple[int | None, ...] = ()
    """The events' own times in ms since 1970, unchecked; empty if no event has one."""


@attrs.frozen(slots=True)
class Delivered:
    """One event of a delivery."""

    place: Place
    header: Header
    liveness: Liveness
    """The effective liveness: that of the frame, not of the document."""
    subscriptions: tuple[int, ...]
    document: bytes
    order: OrderEntry | None = None


@attrs.frozen
class Delivery:
    previous: Place | None
    events: list[Delivered]


def encode_batch(
    number: int, documents: Sequence[bytes], times: Sequence[int | None] = ()
) -> bytes:
    """Encode a PUBLISH message. Nodes before `STATE_VERSION` take none with times."""
    fields = (number, PLAIN, tuple(map(len, documents)))
    header = _pack((*fields, times) if any(each is not None for each in times) else fields)
    return b"".join((_PUBLISH.pack(PUBLISH, len(header)), header, *documents))


def decode_batch(data: bytes) -> Batch:
    """Raises `ProtocolError`."""
    try:
        _, length = _PUBLISH.unpack_from(data)
        start = _PUBLISH.size + length
        header = _publish_header(data[_PUBLISH.size : start])
        number, lengths, times = header.number, header.lengths, header.times
        if header.encoding != PLAIN:
            raise _unknown_encoding(header.encoding)
        if times and len(times) != len(lengths):
            raise ValueError("the counts differ")
        if len(lengths) == 1 and start + lengths[0] == len(data):
            return Batch(number, [data[start:]], times)
        # An empty document is refused later, without its neighbours.
        return Batch(number, _split_documents(data, start, lengths), times)
    except (ValueError, msgspec.MsgspecError, struct.error, RecursionError):
        raise ProtocolError("malformed PUBLISH message") from None


@attrs.define(eq=False)
class EncodedEvents:
    """Part of a delivery that is equal for every link."""

    places: list[tuple[str, int, int, int]]
    lengths: list[int]
    records: bytes
    documents: bytes
    last: tuple[object, bytes] | None = None
    """Context of the last delivery made of them, and its bytes."""
    with_order: EncodedEvents | None = None
    """The same for links that take order entries, if an event has one."""
    with_state: EncodedEvents | None = None
    """The same for links that take these too, and how events were validated and their own times, if
    one was not valid by a DTD or has a time."""


def encode_events(events: Sequence[LoggedEvent]) -> EncodedEvents:
    """Encode the parts of a delivery that several links share.

    Clients get no proofs, and no annotations of transports but order entries.
    """
    if len(events) == 1:
        (event,) = events
        places = [(event.origin, event.epoch, event.offset, 1)]
        encoded = EncodedEvents(places, [len(event.document)], event.record, event.document)
    else:
        documents = [event.document for event in events]
        encoded = EncodedEvents(
            _places(events),
            list(map(len, documents)),
            b"".join([event.record for event in events]),
            b"".join(documents),
        )
    records = encoded.records
    # The bytes may be inside of a record, too.
    if (
        (PROVED in records or ANNOTATED in records)
        and [e for e in events if e.record.startswith((PROVED, ANNOTATED))]
    ) or may_state_more(records):
        _separate_elements(encoded, [event.record for event in events])
    return encoded


def _separate_elements(encoded: EncodedEvents, records: Sequence[bytes]) -> None:
    plain: list[bytes] = []
    ordered: list[bytes] = []
    complete: list[bytes] = []
    for record in records:
        stated, annotation, _ = split_record(record)
        bare = with_liveness_only(stated)
        plain.append(bare)
        if annotation and decode_entry_fields(annotation) is not None:
            stated, bare = join_record(stated, annotation), join_record(bare, annotation)
        ordered.append(bare)
        complete.append(stated)
    encoded.records = b"".join(plain)
    if ordered != plain:
        encoded.with_order = attrs.evolve(encoded, records=b"".join(ordered))
    if complete != ordered:
        encoded.with_state = attrs.evolve(encoded, records=b"".join(complete))


def _places(events: Sequence[LoggedEvent]) -> list[tuple[str, int, int, int]]:
    if not events:
        return []
    first, last = events[0], events[-1]
    if (
        last.offset - first.offset == len(events) - 1
        and first.epoch == last.epoch
        and len(set(map(_origin, events))) == 1
    ):
        # Offsets rise, so none is missing.
        return [(first.origin, first.epoch, first.offset, len(events))]
    runs: list[tuple[str, int, int, int]] = []
    origin, epoch, start, count = "", 0, 0, 0
    for event in events:
        if event.offset == start + count and event.epoch == epoch and event.origin == origin:
            count += 1
            continue
        if count:
            runs.append((origin, epoch, start, count))
        origin, epoch, start, count = event.origin, event.epoch, event.offset, 1
    runs.append((origin, epoch, start, count))
    return runs


def encode_delivery(
    events: EncodedEvents,
    subscriptions: Sequence[tuple[int, Sequence[int]]],
    liveness: Liveness,
    previous: tuple[str, int, int] | None,
) -> bytes:
    """`subscriptions` are runs (count of events, numbers).

    Links with equal deliveries get the same message object.
    """
    context = (subscriptions, liveness, previous)
    if events.last is not None and events.last[0] == context:
        message = events.last[1]
        if not isinstance(message, SharedMessage):
            message = SharedMessage(message)
            events.last = context, message
        return message
    header = _pack(
        (PLAIN, liveness._value_, previous, subscriptions, events.places, events.lengths)
    )
    head = _DELIVER.pack(DELIVER, len(header), len(events.records))
    message = b"".join((head, header, events.records, events.documents))
    events.last = context, message
    return message


def decode_delivery(data: bytes) -> Delivery:
    """Raises `ProtocolError`."""
    try:
        _, header_length, records_length = _DELIVER.unpack_from(data)
        records_start = _DELIVER.size + header_length
        start = records_start + records_length
        encoding, liveness, previous, runs, places, lengths = _deliver_header(
            data[_DELIVER.size : records_start]
        )
        if encoding != PLAIN:
            raise _unknown_encoding(encoding)
        documents = _split_documents(data, start, lengths)
        unpacker = msgpack.Unpacker(use_list=False)
        unpacker.feed(data[records_start:start])
        records = list(unpacker)
        headers = [header_from_fields(fields) for fields in records]
        events = _assemble(documents, headers, Liveness(liveness), runs, places)
        for index, fields in enumerate(records):
            if len(fields) > RECORD_FIELDS:
                events[index] = _with_order(events[index], fields[RECORD_FIELDS])
        return Delivery(None if previous is None else Place(*previous), events)
    except (
        *(ValueError, TypeError, LookupError, RecursionError),
        *(struct.error, msgspec.MsgspecError, msgpack.UnpackException),
    ):
        raise ProtocolError("malformed DELIVER message") from None


def _with_order(event: Delivered, annotation: object) -> Delivered:
    if not isinstance(annotation, bytes):
        raise ValueError("an annotation is bytes")
    return attrs.evolve(event, order=decode_order_entry(annotation))


def _assemble(
    documents: list[bytes],
    headers: list[Header],
    liveness: Liveness,
    runs: tuple[_Run, ...],
    places: tuple[_Places, ...],
) -> list[Delivered]:
    count = len(documents)
    if not sum(run[0] for run in runs) == sum(run[3] for run in places) == len(headers) == count:
        raise ValueError("the counts differ")
    numbers = itertools.chain.from_iterable(itertools.repeat(n, c) for c, n in runs)
    event_places = (
        Place(origin, epoch, offset)
        for origin, epoch, first, length in places
        for offset in range(first, first + length)
    )
    return [
        Delivered(place, header, liveness, numbered, document)
        for place, header, numbered, document in zip(
            event_places, headers, numbers, documents, strict=True
        )
    ]


def _split_documents(data: bytes, start: int, lengths: Sequence[int]) -> list[bytes]:
    documents = []
    for length in lengths:
        documents.append(data[start : start + length])
        start += length
    if start != len(data):
        raise ValueError("the lengths do not add up")
    return documents


def _unknown_encoding(encoding: int) -> ProtocolError:
    return ProtocolError(f"body encoding {encoding!r} is unknown")
