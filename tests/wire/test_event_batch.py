from __future__ import annotations

import struct
from typing import Any

import attrs
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import ProtocolError
from broker.event.annotation import with_annotation
from broker.event.envelope import Header, Liveness, SecurityLevel, Validation
from broker.event.event_id import EventId
from broker.event.order_entry import OrderEntry, encode_order_entry
from broker.event.place import Place
from broker.event.record import with_proof
from broker.log.logged_event import LoggedEvent, encode_header, header_from_fields
from broker.transport.shared_message import SharedMessage
from broker.wire.event_batch import (
    decode_batch,
    decode_delivery,
    encode_batch,
    encode_delivery,
    encode_events,
)

MARKS = st.tuples(st.integers(1, 3), st.integers(1, 40))
ORDER = OrderEntry("ops", "a", 7, 300, -5, "hybrid", 8_000, True, ("a", 7, 4), None, True)
ENTRY = encode_order_entry(ORDER)
DOCUMENTS = st.lists(st.binary(min_size=1, max_size=50), max_size=20)


def header_of(event: LoggedEvent) -> Header:
    return header_from_fields(msgpack.unpackb(event.record))


def logged(epoch: int, offset: int) -> LoggedEvent:
    header = Header(
        EventId("feed", 1000 + offset, offset, 3),
        "a.b",
        "flight",
        "1.0",
        SecurityLevel.HIGH,
        Liveness.LIVE,
    )
    return LoggedEvent(
        epoch, offset, 0, 2, encode_header(header), b"<event n='%d'/>" % offset, "n", offset
    )


@given(st.integers(0, 2**62), DOCUMENTS)
def test_a_batch_survives_the_wire(number: int, documents: list[bytes]) -> None:
    batch = decode_batch(encode_batch(number, documents))
    assert (batch.number, batch.documents) == (number, documents)


@given(DOCUMENTS, st.data())
def test_times_survive_the_wire(documents: list[bytes], data: st.DataObject) -> None:
    kinds = st.none() | st.integers(-(2**63), 2**63)
    times = tuple(data.draw(kinds) for _ in documents)
    encoded = encode_batch(1, documents, times)
    assert decode_batch(encoded).times == (times if set(times) - {None} else ())
    if not set(times) - {None}:
        assert encoded == encode_batch(1, documents)


@pytest.mark.parametrize("times", [[1], [1, None, 2], [1, "2"], [1, 2.5], [1, True], 1, {}])
def test_times_of_another_form_are_a_protocol_error(times: object) -> None:
    header = msgpack.packb((1, 0, (4, 4), times))
    with pytest.raises(ProtocolError, match="malformed PUBLISH"):
        decode_batch(struct.pack(">BI", 0x10, len(header)) + header + b"<a/><b/>")


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 40)), unique=True, max_size=20).map(
        sorted
    ),
    st.sampled_from(Liveness),
    st.none() | st.just(("n", 1, 7)),
    st.data(),
)
def test_a_delivery_survives_the_wire(
    marks: list[tuple[int, int]],
    liveness: Liveness,
    previous: tuple[str, int, int] | None,
    data: st.DataObject,
) -> None:
    events = [logged(epoch, offset) for epoch, offset in marks]
    numbers = [data.draw(st.sampled_from([(1,), (1, 2), (3,)])) for _ in events]
    delivery = decode_delivery(
        encode_delivery(encode_events(events), [(1, each) for each in numbers], liveness, previous)
    )
    assert delivery.previous == (None if previous is None else Place(*previous))
    assert [e.place for e in delivery.events] == [Place("n", *mark) for mark in marks]
    assert [e.document for e in delivery.events] == [e.document for e in events]
    assert [e.subscriptions for e in delivery.events] == numbers
    assert [e.header.event_id.sequence_number for e in delivery.events] == [m[1] for m in marks]
    assert {e.liveness for e in delivery.events} <= {liveness}


def test_neighbouring_places_travel_as_one_run() -> None:
    events = [logged(1, offset) for offset in range(1, 1001)]
    assert encode_events(events).places == [("n", 1, 1, 1000)]
    del events[500]
    assert encode_events(events).places == [("n", 1, 1, 500), ("n", 1, 502, 499)]


def test_links_that_get_the_same_get_one_message() -> None:
    events = encode_events([logged(1, 1), logged(1, 2)])

    def delivery(number: int, previous: tuple[str, int, int] | None) -> bytes:
        return encode_delivery(events, [(2, [number])], Liveness.LIVE, previous)

    first, second, third = (delivery(1, ("n", 1, 7)) for _ in range(3))
    assert first == second and second is third
    assert isinstance(third, SharedMessage)
    assert decode_delivery(delivery(2, ("n", 1, 7))).events[0].subscriptions == (2,)
    assert decode_delivery(delivery(2, None)).previous is None


@given(st.binary(max_size=100))
def test_random_bytes_behind_the_kind_are_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_batch(b"\x10" + data)
    with pytest.raises(ProtocolError):
        decode_delivery(b"\x28" + data)


@pytest.mark.parametrize("annotated", [(0,), (1,), (0, 2), (0, 1, 2)])
def test_clients_get_no_annotations(annotated: tuple[int, ...]) -> None:
    events = [logged(1, offset) for offset in (1, 2, 5)]
    plain = encode_events(events)
    single = encode_events(events[:1])
    for index in annotated:
        events[index].record = with_annotation(events[index].record, b"a" * 300)
    assert encode_events(events).records == plain.records
    assert encode_events(events[:1]).records == single.records
    message = encode_delivery(encode_events(events), [(3, (1,))], Liveness.LIVE, None)
    assert message == encode_delivery(plain, [(3, (1,))], Liveness.LIVE, None)


@pytest.mark.parametrize("ordered", [(0,), (1,), (0, 2), (0, 1, 2)])
def test_clients_get_order_entries_if_they_take_them(ordered: tuple[int, ...]) -> None:
    events = [logged(1, offset) for offset in (1, 2, 5)]
    plain = encode_events(events)
    for index, event in enumerate(events):
        event.record = with_annotation(event.record, ENTRY if index in ordered else b"other")
    encoded = encode_events(events)
    assert encoded.records == plain.records
    message = encode_delivery(encoded, [(3, (1,))], Liveness.LIVE, None)
    assert message == encode_delivery(plain, [(3, (1,))], Liveness.LIVE, None)
    assert {each.order for each in decode_delivery(message).events} == {None}
    assert encoded.with_order is not None
    message = encode_delivery(encoded.with_order, [(3, (1,))], Liveness.LIVE, None)
    assert message == encode_delivery(encoded.with_order, [(3, (1,))], Liveness.LIVE, None)
    found = decode_delivery(message).events
    assert [each.order for each in found] == [ORDER if i in ordered else None for i in range(3)]
    assert [each.header for each in found] == [e.header for e in decode_delivery(message).events]


@pytest.mark.parametrize("stated", [(0,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("ordered", [(), (1,)])
@pytest.mark.parametrize(
    "addition",
    [{"validation": Validation.MARKED}, {"time": 0}, {"validation": Validation.MARKED, "time": 5}],
)
def test_clients_learn_validation_and_time_if_they_take_them(
    stated: tuple[int, ...], ordered: tuple[int, ...], addition: dict[str, Any]
) -> None:
    events = [logged(1, offset) for offset in (1, 2, 5)]
    plain = encode_events(events)
    headers = [header_of(each) for each in events]
    for index in stated:
        headers[index] = headers[index]._replace(**addition)
        events[index].record = encode_header(headers[index])
    for index in ordered:
        events[index].record = with_annotation(events[index].record, ENTRY)
    for event in events:
        event.record = with_proof(event.record, b"proof")
    encoded = encode_events(events)
    assert encoded.records == plain.records
    assert (encoded.with_order is not None) == bool(ordered)
    assert encoded.with_state is not None
    message = encode_delivery(encoded.with_state, [(3, (1,))], Liveness.LIVE, None)
    found = decode_delivery(message).events
    assert [each.header for each in found] == headers
    assert [each.order for each in found] == [ORDER if i in ordered else None for i in range(3)]
    if encoded.with_order is not None:
        message = encode_delivery(encoded.with_order, [(3, (1,))], Liveness.LIVE, None)
        found = decode_delivery(message).events
        assert {each.header.validation for each in found} == {Validation.DESCRIBED}
        assert {each.header.time for each in found} == {None}
        assert [each.order is None for each in found] == [True, False, True]


def test_a_delivery_with_an_order_entry_has_its_bytes() -> None:
    event = logged(1, 1)
    event.record = with_annotation(event.record, ENTRY)
    encoded = encode_events([event]).with_order
    assert encoded is not None
    assert encode_delivery(encoded, [(1, (1,))], Liveness.LIVE, None).hex() == (
        "28000000160000004c9600a46c697665c09192019101"
        "9194a16e010101910e"
        "9aa466656564cd03e90103a3612e62a6666c69676874a3312e30a468696768a46c697665c426"
        + ENTRY.hex()
        + "3c6576656e74206e3d2731272f3e"
    )


@pytest.mark.parametrize("wrong", ["text", 5, None, [b""]])
def test_an_annotation_that_is_no_bytes_is_refused(wrong: object) -> None:
    encoded = encode_events([logged(1, 1)])
    encoded.records = msgpack.packb([*msgpack.unpackb(encoded.records), wrong])
    with pytest.raises(ProtocolError, match="malformed DELIVER"):
        decode_delivery(encode_delivery(encoded, [(1, (1,))], Liveness.LIVE, None))


def test_an_entry_of_a_later_version_is_none() -> None:
    encoded = encode_events([logged(1, 1)])
    encoded.records = msgpack.packb([*msgpack.unpackb(encoded.records), b"later"])
    message = encode_delivery(encoded, [(1, (1,))], Liveness.LIVE, None)
    assert decode_delivery(message).events[0].order is None


@given(st.data(), st.booleans())
def test_a_delivery_with_a_changed_byte_raises_nothing_else(
    data: st.DataObject, is_ordered: bool
) -> None:
    events = [logged(1, offset) for offset in (1, 2, 5)]
    if is_ordered:
        events[1].record = with_annotation(events[1].record, ENTRY)
        events[2].record = encode_header(
            header_of(events[2])._replace(validation=Validation.UNDESCRIBED)
        )
    sent = encode_events(events)
    sent = sent.with_state or sent.with_order or sent
    encoded = bytearray(encode_delivery(sent, [(3, (1,))], Liveness.LIVE, None))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert len(decode_delivery(bytes(encoded)).events) == 3
    except ProtocolError as error:
        assert error.text


SHORT_RUNS = [
    ([[1, [1]]], [["n", 1, 1]]),
    ([[1, [1]]], [[]]),
    ([[]], [["n", 1, 1, 1]]),
    ([[1]], [["n", 1, 1, 1]]),
    ([[1, [1]]], [["n", 1, "1", 1]]),
    ([[1, 1]], [["n", 1, 1, 1]]),
    ([{}], [["n", 1, 1, 1]]),
    ([[1, [[]]]], [["n", 1, 1, 1]]),
    ([[1, ["1"]]], [["n", 1, 1, 1]]),
    ([[1, [1]]], [["n", "1", 1, 1]]),
    ([[1, [1]]], [[5, 1, 1, 1]]),
]


@pytest.mark.parametrize(("subscriptions", "places"), SHORT_RUNS)
def test_runs_of_another_form_are_a_protocol_error(subscriptions: object, places: object) -> None:
    record = logged(1, 1).record
    header = msgpack.packb((0, "live", None, subscriptions, places, [4]))
    head = struct.pack(">BII", 0x28, len(header), len(record))
    with pytest.raises(ProtocolError):
        decode_delivery(head + header + record + b"<e/>")


@pytest.mark.parametrize("cut", [1, 3, 10, -1])
def test_half_a_batch_is_refused(cut: int) -> None:
    encoded = encode_batch(1, [b"<a/>", b"<b/>"])
    with pytest.raises(ProtocolError):
        decode_batch(encoded[:cut])


def test_a_batch_with_bytes_behind_its_end_is_refused() -> None:
    with pytest.raises(ProtocolError):
        decode_batch(encode_batch(1, [b"<a/>"]) + b"x")


def test_an_empty_document_spoils_no_batch() -> None:
    batch = decode_batch(encode_batch(1, [b"<a/>", b"", b"<b/>"]))
    assert batch.documents == [b"<a/>", b"", b"<b/>"]


def test_no_node_delivers_an_empty_document() -> None:
    events = encode_events([attrs.evolve(logged(1, 1), document=b"")])
    with pytest.raises(ProtocolError):
        decode_delivery(encode_delivery(events, [(1, (1,))], Liveness.LIVE, None))
