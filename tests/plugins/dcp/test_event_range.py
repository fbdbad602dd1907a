"""Ranges of events and of bytes, and their entries in a packet."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import ProtocolError
from broker.streams.contract import CarriedEvent
from plugins.dcp.event_range import (
    Description,
    EventRange,
    SequenceKey,
    StreamRange,
    decode_range,
    decode_stream_range,
    encode_entry,
)

EPOCH = 3
ENTRY = struct.Struct(">QBII")


def make_event(an: int, document: bytes = b"<e/>", record: bytes = b"r") -> CarriedEvent:
    return CarriedEvent((EPOCH, an), record, document, an % 3)


def make_range(previous: int, upto: int, *ans: int) -> EventRange:
    return EventRange.of_events(previous, upto, [make_event(an) for an in ans])


def body_of(range_: EventRange) -> bytes:
    return b"".join(range_.entries)


def ans_of(range_: EventRange) -> list[int]:
    assert list(range_.entries) == [encode_entry(each) for each in range_.events]
    return [event.mark[1] for event in range_.events]


def bounds_of(range_: EventRange | StreamRange) -> tuple[int, int]:
    return range_.previous, range_.upto


@st.composite
def event_ranges(draw: st.DrawFn) -> EventRange:
    previous = draw(st.integers(0, 2**40))
    steps = draw(st.lists(st.integers(1, 50), max_size=8))
    an, events = previous, []
    for step in steps:
        an += step
        record, document = draw(st.binary(max_size=9)), draw(st.binary(max_size=30))
        events.append(CarriedEvent((EPOCH, an), record, document, draw(st.integers(0, 2))))
    return EventRange.of_events(previous, an + draw(st.integers(0, 9)), events)


# ------------------------------------------------------------------ entries


def test_the_bytes_of_an_entry() -> None:
    event = CarriedEvent((EPOCH, 0x0102), b"rec", b"<doc/>", 2)
    expected = bytes.fromhex("0000000000000102 02 00000003 00000006") + b"rec<doc/>"
    assert encode_entry(event) == expected


@given(event_ranges())
def test_entries_round_trip(range_: EventRange) -> None:
    decoded = decode_range(range_.previous, range_.upto, EPOCH, body_of(range_))
    assert decoded == range_
    assert decoded.size == len(body_of(range_))


def test_a_range_without_events_has_an_empty_body() -> None:
    assert decode_range(5, 9, EPOCH, b"") == EventRange(5, 9, [], [])


@given(event_ranges(), st.data())
def test_cut_entries(range_: EventRange, drawn: st.DataObject) -> None:
    body = body_of(range_)
    ends = {0}
    for entry in range_.entries:
        ends.add(max(ends) + len(entry))
    size = drawn.draw(st.integers(0, len(body)))
    if size in ends:
        whole = decode_range(range_.previous, range_.upto, EPOCH, body[:size])
        assert whole.entries == range_.entries[: len(whole.entries)] and whole.size == size
    else:
        with pytest.raises(ProtocolError):
            decode_range(range_.previous, range_.upto, EPOCH, body[:size])


def test_an_entry_that_is_longer_than_the_body() -> None:
    for record_bytes, document_bytes in ((0, 9), (9, 0), (2**32 - 1, 2**32 - 1)):
        body = ENTRY.pack(7, 0, record_bytes, document_bytes) + b"12345678"
        with pytest.raises(ProtocolError):
            decode_range(5, 9, EPOCH, body)
    assert ans_of(decode_range(5, 9, EPOCH, ENTRY.pack(7, 0, 4, 4) + b"12345678")) == [7]


@pytest.mark.parametrize("ans", [(7, 6), (7, 7), (6, 8, 7), (5,), (10,), (6, 10), (0,)])
def test_entries_that_do_not_ascend_or_are_outside(ans: tuple[int, ...]) -> None:
    body = b"".join(encode_entry(make_event(an)) for an in ans)
    with pytest.raises(ProtocolError):
        decode_range(5, 9, EPOCH, body)


def test_entries_at_both_ends_of_the_range() -> None:
    body = encode_entry(make_event(6)) + encode_entry(make_event(9))
    assert ans_of(decode_range(5, 9, EPOCH, body)) == [6, 9]


def test_a_level_that_does_not_exist() -> None:
    with pytest.raises(ProtocolError, match="level 3"):
        decode_range(5, 9, EPOCH, ENTRY.pack(7, 3, 0, 0))


@given(st.binary(max_size=80))
def test_any_bytes_are_entries_or_a_protocol_error(body: bytes) -> None:
    try:
        range_ = decode_range(0, 2**64 - 1, EPOCH, body)
    except ProtocolError:
        return
    assert body_of(range_) == body


# ------------------------------------------------------------------ parts of event ranges


def test_the_part_behind_an_an() -> None:
    whole = make_range(10, 20, 12, 15, 18)
    for an, ans in ((10, [12, 15, 18]), (12, [15, 18]), (14, [15, 18]), (18, []), (20, [])):
        part = whole.after(an)
        assert (bounds_of(part), ans_of(part)) == ((an, 20), ans)


def test_the_part_up_to_an_an() -> None:
    whole = make_range(10, 20, 12, 15, 18)
    for an, ans in ((10, []), (11, []), (12, [12]), (17, [12, 15]), (20, [12, 15, 18])):
        part = whole.until(an)
        assert (bounds_of(part), ans_of(part)) == ((10, an), ans)


@given(event_ranges(), st.data())
def test_both_parts_have_all_events(range_: EventRange, drawn: st.DataObject) -> None:
    an = drawn.draw(st.integers(range_.previous, range_.upto))
    first, rest = range_.until(an), range_.after(an)
    assert first.upto == rest.previous == an
    assert [*first.events, *rest.events] == range_.events
    assert [*first.entries, *rest.entries] == range_.entries


@given(event_ranges(), st.integers(1, 120))
def test_a_split_range_fits_or_is_one_event(range_: EventRange, room: int) -> None:
    parts, rest = [], range_
    while True:
        head, following = rest.split(room)
        parts.append(head)
        assert head.size <= room or len(head.events) == 1
        if following is None:
            break
        assert following.events and following.previous == head.upto
        assert head.size + len(following.entries[0]) > room
        rest = following
    assert bounds_of(range_) == (parts[0].previous, parts[-1].upto)
    assert [entry for part in parts for entry in part.entries] == range_.entries


def test_the_head_of_a_split_range_ends_at_its_last_event() -> None:
    whole = make_range(10, 20, 12, 15, 18)
    head, rest = whole.split(2 * len(whole.entries[0]))
    assert rest is not None
    assert (bounds_of(head), ans_of(head)) == ((10, 15), [12, 15])
    assert (bounds_of(rest), ans_of(rest)) == ((15, 20), [18])


def test_an_earlier_begin() -> None:
    moved = make_range(10, 20, 12, 15).begin_at(4)
    assert (bounds_of(moved), ans_of(moved)) == ((4, 20), [12, 15])


def test_single_events_state_nothing_of_the_ans_between() -> None:
    singles = make_range(10, 20, 12, 13, 20).single_events()
    assert [bounds_of(each) for each in singles] == [(11, 12), (12, 13), (19, 20)]
    assert [ans_of(each) for each in singles] == [[12], [13], [20]]
    assert make_range(10, 20).single_events() == []


def test_digests_differ_with_the_document_only() -> None:
    def digest_of(event: CarriedEvent) -> list[tuple[int, int]]:
        return EventRange.of_events(1, 5, [event]).digests()

    assert digest_of(make_event(2, b"a", b"x")) == digest_of(make_event(2, b"a", b"y"))
    assert digest_of(make_event(2, b"a")) != digest_of(make_event(2, b"b"))
    assert [an for an, _ in make_range(1, 9, 3, 8).digests()] == [3, 8]


def test_copies_of_other_ranges_are_adopted() -> None:
    first = EventRange.of_events(10, 20, [make_event(12, b"first"), make_event(18, b"first")])
    other = EventRange.of_events(5, 16, [make_event(an, b"other") for an in (7, 12, 15)])
    adopted = other.adopt([make_range(20, 30, 25), first])
    assert (bounds_of(adopted), ans_of(adopted)) == ((5, 16), [7, 12, 15])
    assert [event.document for event in adopted.events] == [b"other", b"first", b"other"]
    assert other.adopt([]) == other


def test_a_description_names_its_sequence() -> None:
    assert Description("0a/ops.>", 4, "n1").key == SequenceKey("0a/ops.>", 4)


# ------------------------------------------------------------------ streams


def test_the_parts_of_a_stream() -> None:
    whole = StreamRange(10, 16, b"abcdef")
    assert whole.size == 6
    assert whole.after(12) == StreamRange(12, 16, b"cdef")
    assert whole.until(12) == StreamRange(10, 12, b"ab")
    assert whole.after(16) == StreamRange(16, 16, b"")
    assert whole.until(10) == StreamRange(10, 10, b"")


def test_a_stream_is_split_at_any_byte() -> None:
    whole = StreamRange(10, 16, b"abcdef")
    assert whole.split(6) == (whole, None)
    assert whole.split(4) == (StreamRange(10, 14, b"abcd"), StreamRange(14, 16, b"ef"))


def test_a_stream_has_neither_events_nor_empty_ranges() -> None:
    whole = StreamRange(10, 16, b"abcdef")
    assert whole.single_events() == [] and whole.digests() == []
    assert whole.adopt([StreamRange(10, 16, b"ABCDEF")]) == whole
    with pytest.raises(ValueError):
        whole.begin_at(8)


def test_the_body_of_a_stream_has_the_bytes_of_its_range() -> None:
    assert decode_stream_range(10, 13, b"abc") == StreamRange(10, 13, b"abc")
    for upto in (10, 12, 14):
        with pytest.raises(ProtocolError):
            decode_stream_range(10, upto, b"abc")
