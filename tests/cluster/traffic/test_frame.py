from __future__ import annotations

import itertools
import tracemalloc

import attrs
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.replicas.page_frame import make_local_frame, make_page_frame
from broker.cluster.traffic.frame import Frame, decode_frame
from broker.cluster.traffic.frame_content import (
    MAX_BODY_BYTES,
    MIN_COMPRESSED_BYTES,
    PLAIN,
    ZSTD,
    ZSTD_ALL,
    ZSTD_RECORDS,
)
from broker.cluster.traffic.frame_range import Range
from broker.errors import ProtocolError
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.flow import FlowInterval
from broker.event.place import Mark
from broker.event.record import join_record, limit_fields
from broker.log.logged_event import encode_header
from broker.streams.contract import CarriedEvent
from broker.streams.dropped_count import QUEUE_FULL, DroppedCount
from tests.cluster.traffic.frames import frame, node, unit

RECORD = encode_header(
    Header(EventId("p", 5, 1, 7), "s", "t", "1.0", SecurityLevel.MED, Liveness.LIVE)
)
DROPPED = (DroppedCount(0, 1 << 40, True), DroppedCount(2, 1, False))
MARKS = st.tuples(st.integers(1, 3), st.integers(0, 50))


@st.composite
def made_up(draw: st.DrawFn) -> Frame:
    targets = draw(
        st.lists(
            st.sampled_from([node("n1"), node("n2", "b"), unit("b"), unit("b", "c")]),
            min_size=1,
            unique=True,
        )
    )
    ranges = []
    for target in targets:
        since, after, gone, upto = sorted(draw(st.tuples(MARKS, MARKS, MARKS, MARKS)))
        more, everything = draw(st.tuples(st.booleans(), st.booleans()))
        begins = draw(st.sampled_from([None, since]))
        lost = draw(st.sampled_from([None, gone]))
        dropped = draw(st.sampled_from([(), QUEUE_FULL] if lost is None else [(), DROPPED]))
        ranges.append(Range(target, after, upto, lost, more, begins, everything, dropped))
    marks = sorted(draw(st.sets(MARKS, max_size=12)))
    events = [(mark, draw(st.binary(max_size=40)), draw(st.integers(0, 2))) for mark in marks]
    wanted = st.sets(st.integers(0, len(targets) - 1), min_size=1)
    recipients = [tuple(sorted(draw(wanted))) for _ in events]
    runs = [(len(list(group)), each) for each, group in itertools.groupby(recipients)]
    made = frame(ranges, events, runs)
    made.history = draw(st.sampled_from([None, (3, 1 << 62, (2, 9))]))
    if draw(st.booleans()):
        made.origin = "o/asdi.>"
        known = draw(st.sampled_from([(), (((1, 0), (2, 3)), ((2, 9), None))]))
        made.intervals = known if made.history else ()
    return made


def content(each: Frame) -> dict[str, object]:
    """Return all fields, independent of the body's encoding."""
    fields = attrs.asdict(each.uncompressed(), recurse=False)
    return {name: list(f) if isinstance(f, tuple | list) else f for name, f in fields.items()}


@given(made_up(), st.sampled_from([None, False, True]))
def test_a_frame_survives_encoding(each: Frame, documents: bool | None) -> None:
    sent = each if documents is None else each.compressed(documents=documents)
    assert content(decode_frame(sent.encode())) == content(each)


@given(made_up())
def test_links_of_earlier_versions_get_no_later_fields(each: Frame) -> None:
    ranges = [span._replace(dropped=()) for span in each.ranges]
    fields = {**content(each), "ranges": ranges}
    assert content(decode_frame(each.encode(2))) == fields
    assert content(decode_frame(each.encode(1))) == {**fields, "history": None, "intervals": []}


@pytest.mark.parametrize(
    ("lost", "dropped"),
    [
        (None, DROPPED),
        ((1, 4), DROPPED * 4),
        ((1, 4), (DroppedCount(3, 1, False),)),
        ((1, 4), (DroppedCount(0, -1, False),)),
    ],
)
def test_invalid_dropped_events_are_a_protocol_error(
    lost: Mark | None, dropped: tuple[DroppedCount, ...]
) -> None:
    span = Range(node("n1"), (1, 2), (1, 5), lost, dropped=dropped)
    with pytest.raises(ProtocolError):
        decode_frame(frame([span]).encode())


@given(made_up())
def test_only_links_of_version_3_carry_other_flows_than_the_default_one(each: Frame) -> None:
    assert each.least_version == (3 if "/" in each.origin else 1)


@pytest.mark.parametrize(
    ("origin", "intervals"),
    [
        ("", ()),
        ("o" * 65, ()),
        ("o\0", ()),
        ("/asdi.>", ()),
        ("o/", ()),
        ("o/a..b", ()),
        ("o/../x", ()),
        ("o/>.a", ()),
        ("o/" + ".".join(["a" * 64] * 5), ()),
        ("o", (((1, 0), None),)),
        ("o/a", (((1, 0), None), ((2, 0), None))),
        ("o/a", (((1, 5), (1, 3)),)),
        ("o/a", (((1, 0), (2, 0)), ((1, 9), None))),
        ("o/a", (((1, 0), (1, 0)),) * 65),
    ],
)
def test_an_invalid_flow_or_interval_is_a_protocol_error(
    origin: str, intervals: tuple[FlowInterval, ...]
) -> None:
    made = frame([Range(node("n1"), (1, 0), (1, 1))], origin=origin)
    made.history, made.intervals = (1, 1, (0, 0)), intervals
    with pytest.raises(ProtocolError, match="malformed"):
        decode_frame(made.encode())


@given(made_up(), st.data())
def test_altered_bytes_decode_to_a_valid_frame_or_a_protocol_error(
    each: Frame, data: st.DataObject
) -> None:
    altered = bytearray(each.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        altered[data.draw(st.integers(0, len(altered) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(altered[: data.draw(st.integers(0, len(altered)))])
    for damaged in (bytes(altered), cut):
        try:
            got = decode_frame(damaged)
            carried = [got.events_at(got.event_indices_for(i)) for i in range(len(got.ranges))]
            again = decode_frame(got.encode())
        except ProtocolError:
            continue
        assert content(again) == content(got)
        assert [
            again.events_at(again.event_indices_for(i)) for i in range(len(got.ranges))
        ] == carried


@given(st.binary(max_size=80))
def test_random_bytes_are_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_frame(b"\x60" + data)


@given(made_up(), st.data())
def test_a_restricted_frame_has_exactly_the_matching_and_cleared_events(
    each: Frame, data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(each.ranges) - 1), min_size=1, unique=True))
    caps = {index: data.draw(st.integers(0, 2)) for index in chosen}
    narrow = decode_frame(each.restricted_to(caps).encode())
    assert list(narrow.ranges) == [each.ranges[i] for i in chosen]
    seen = set()
    for new, old in enumerate(chosen):
        allowed = [e for e in each.events_at(each.event_indices_for(old)) if e.level <= caps[old]]
        got = narrow.events_at(narrow.event_indices_for(new))
        assert got == allowed
        seen |= {e.mark for e in got}
    assert set(narrow.marks()) == seen


def bomb(stated: int, embedded: bool) -> Frame:
    """Return a frame with a body of 32 MB in some kB; its header states `stated` bytes."""
    compressor = zstandard.ZstdCompressor(write_content_size=embedded)
    body = compressor.compress(bytes(32 << 20))
    each = frame([Range(node("n1"), (1, 0), (1, 1))], [((1, 1), b"", 0)], [(1, (0,))])
    return attrs.evolve(each, encoding=ZSTD, document_lengths=[stated], body=body)


@pytest.mark.parametrize("embedded", [True, False])
def test_a_body_longer_than_its_header_states_takes_no_memory(embedded: bool) -> None:
    each = decode_frame(bomb(100, embedded).encode())
    tracemalloc.start()
    with pytest.raises(ProtocolError):
        each.documents()
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_a_header_over_the_body_limit_is_rejected() -> None:
    with pytest.raises(ProtocolError):
        decode_frame(bomb(MAX_BODY_BYTES + 1, True).encode())


def test_long_bodies_are_compressed_and_short_ones_are_not() -> None:
    span = Range(node("n1"), (1, 0), (1, 1))
    short = frame([span], [((1, 1), b"x" * 100, 0)], [(1, (0,))])
    long = frame([span], [((1, 1), b"x" * MIN_COMPRESSED_BYTES, 0)], [(1, (0,))])
    assert short.compressed() is short
    assert long.compressed().encoding == ZSTD_ALL and len(long.compressed().body) < 100
    assert long.compressed().uncompressed().body == long.body


def test_a_local_frame_has_the_events_and_the_size_of_a_page() -> None:
    events = [CarriedEvent((1, place), RECORD, b"<a/>" * place, 1) for place in (1, 2, 4)]
    span = Range(node("n1"), (1, 0), (1, 4))
    local = make_local_frame("o", node("n1"), span, events)
    page = decode_frame(make_page_frame("o", node("n1"), [span], events).encode())
    assert local.events_for(0) == page.events_for(0) == events
    assert local.size == page.size
    assert make_local_frame("o", node("n1"), span, []).events_for(0) == []


@pytest.mark.parametrize("version", [1, 2, 3])
def test_annotations_stay_away_from_links_of_earlier_versions(version: int) -> None:
    """A changed stack can turn an annotated event into one of the default flow."""
    plain = CarriedEvent((1, 1), RECORD, b"<a/>", 1)
    events = [plain, plain._replace(mark=(1, 2)).with_annotation(b"number 7")]
    sent = make_page_frame("o", node("n1"), [Range(node("n1"), (1, 0), (1, 2))], events)
    received = decode_frame(sent.encode(version))
    annotations = [each.annotation for each in received.events_at([0, 1])]
    assert annotations == [b"", b"number 7" if version == 3 else b""]
    assert received.events_at([0]) == [plain]
    if version < 3:
        assert received.records == RECORD * 2


def test_earlier_versions_get_plain_records_without_proofs() -> None:
    record = join_record(b"\x99" + b"r" * 40, b"note", b"p" * 200)
    span = Range(node("n1"), (1, 0), (1, 2))
    made = frame([span], [((1, n), b"x" * 600, 0) for n in (1, 2)], [(2, (0,))])
    made = attrs.evolve(made, records=record * 2, record_lengths=[len(record)] * 2)
    packed = made.compressed()
    assert packed.encoding == ZSTD_ALL and packed.records == b""
    assert_readable_by_earlier_versions(packed, record, ZSTD)


def test_compressed_records_are_for_the_newest_version() -> None:
    record = join_record(b"\x99" + b"r" * 40, b"note", b"p" * 300)
    span = Range(node("n1"), (1, 0), (1, 2))
    made = frame([span], [((1, n), b"x" * 600, 0) for n in (1, 2)], [(2, (0,))])
    made = attrs.evolve(made, records=record * 2, record_lengths=[len(record)] * 2)
    packed = made.compressed(documents=False)
    assert packed.encoding == ZSTD_RECORDS and len(packed.records) < 100
    assert packed.compressed() is packed and packed.body is made.body
    assert decode_frame(packed.encode(5)).records == made.records
    assert_readable_by_earlier_versions(packed, record, PLAIN)


def assert_readable_by_earlier_versions(packed: Frame, record: bytes, encoding: int) -> None:
    newest = decode_frame(packed.encode())
    assert [each.record for each in newest.events_at(range(2))] == [record] * 2
    for version, fields in ((3, 10), (2, 9), (1, 9)):
        old = decode_frame(packed.encode(version))
        assert old.encoding == encoding
        events = old.events_at(range(2))
        assert [each.record for each in events] == [limit_fields(record, fields)] * 2
        assert [each.document for each in events] == [b"x" * 600] * 2
    part = newest.with_only_events([1])
    assert part.encoding == PLAIN and part.records == record and part.body == b"x" * 600


def test_records_longer_than_the_header_states_take_no_memory() -> None:
    """The compressor's own statement does not count."""
    each = bomb(100, True)
    each = attrs.evolve(
        each,
        encoding=ZSTD_RECORDS,
        records=each.body,
        record_lengths=[100],
        document_lengths=[0],
        body=b"",
    )
    tracemalloc.start()
    with pytest.raises(ProtocolError):
        decode_frame(each.encode()).events_at([0])
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    for wrong in (
        attrs.evolve(each, body=b"x"),
        attrs.evolve(each, record_lengths=[1 << 40]),
        attrs.evolve(each, encoding=ZSTD_RECORDS + 1),
    ):
        with pytest.raises(ProtocolError):
            decode_frame(wrong.encode())


def test_compressed_records_have_the_stated_lengths() -> None:
    span = Range(node("n1"), (1, 0), (1, 1))
    made = frame([span], [((1, 1), b"x" * 600, 0)], [(1, (0,))]).compressed()
    for wrong in (
        attrs.evolve(made, record_lengths=[made.record_lengths[0] + 1]),
        attrs.evolve(made, body=made.body[:-3]),
    ):
        with pytest.raises(ProtocolError):
            decode_frame(wrong.encode()).documents()
    for wrong in (
        attrs.evolve(made, records=b"x"),
        attrs.evolve(made, record_lengths=[1 << 40]),
    ):
        with pytest.raises(ProtocolError):
            decode_frame(wrong.encode())
