from __future__ import annotations

from typing import Any

import attrs
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.event.annotation import annotation_of, with_annotation
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.order_entry import (
    OrderEntry,
    decode_order_entry,
    encode_order_entry,
    encode_run,
)
from broker.event.record import MAX_ANNOTATION_BYTES
from broker.log.logged_event import encode_header

HEADER = Header(EventId("p", 5, 1, 7), "s.t", "t", "1.0", SecurityLevel.LOW, Liveness.LIVE)
RECORD = encode_header(HEADER)
LEAST = OrderEntry("ops", "a", 1, 1, None, "sequencer")
IN_TIME = OrderEntry("ops", "a", 7, 300, 1_700_000_000_000_000, "hybrid", 8_000)
LATE = OrderEntry("ops", "c", 2, 9, -5, "logical", 0, True, ("a", 7, 4), ("b", 1, 2), True)
ENTRIES = [
    (LEAST, "9ea56f7264657201a36f7073a1610101c0a973657175656e63657200c2c0c0c2a0"),
    (
        IN_TIME,
        "9ea56f7264657201a36f7073a16107cd012ccf00060a24181e4000a6687962726964cd1f40c2c0c0c2a0",
    ),
    (
        LATE,
        "9ea56f7264657201a36f7073a1630209fba76c6f676963616c00c393a161070493a1620102c3a0",
    ),
]
names = st.text(min_size=1, max_size=20)
counts = st.integers(1, 2**63 - 1)
ids = st.none() | st.tuples(names, counts, counts)


@st.composite
def entries(draw: st.DrawFn) -> OrderEntry:
    late = draw(st.booleans())
    return OrderEntry(
        *(draw(names), draw(names), draw(counts), draw(counts)),
        *(draw(st.none() | st.integers(-(2**63), 2**63 - 1)), draw(names)),
        *(draw(st.integers(0, 2**63 - 1)), late),
        *((draw(ids), draw(ids)) if late else (None, None)),
        draw(st.booleans()),
    )


@pytest.mark.parametrize(("entry", "expected"), ENTRIES)
def test_an_entry_has_its_bytes(entry: OrderEntry, expected: str) -> None:
    assert encode_order_entry(entry).hex() == expected
    assert decode_order_entry(bytes.fromhex(expected)) == entry


@given(entries())
def test_an_entry_is_the_annotation_of_a_record(entry: OrderEntry) -> None:
    annotation = encode_order_entry(entry)
    assert len(annotation) <= MAX_ANNOTATION_BYTES
    assert decode_order_entry(annotation_of(with_annotation(RECORD, annotation))) == entry
    assert entry.id == (entry.site, entry.incarnation, entry.number)


def test_the_largest_names_of_nodes_fit() -> None:
    long, large = "n" * 64, 2**63 - 1
    id = (long, large, large)
    entry = OrderEntry(
        *(long, long, large, large, -large - 1, long, large, True, id, id, True),
    )
    assert (
        decode_order_entry(annotation_of(with_annotation(RECORD, encode_order_entry(entry))))
        == entry
    )


@pytest.mark.parametrize(
    "changes",
    [
        *({"stack": ""}, {"stack": "n" * 65}, {"site": ""}, {"variant": 5}),
        *({"incarnation": -1}, {"number": 0}, {"number": 2**63}, {"bound": -1}),
        *({"stamp": 2**63}, {"stamp": -(2**63) - 1}, {"stamp": 1.5}, {"is_late": 1}),
        *({"before": ("a", 1)}, {"after": ("a", 1, 0)}, {"is_late": False}),
        dict.fromkeys(("stack", "site", "variant"), "📨" * 64)
        | {"before": ("\U0001f4e8" * 64, 1, 1)},
    ],
)
def test_an_entry_beyond_its_bounds_is_not_written(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not a valid order entry"):
        encode_order_entry(attrs.evolve(LATE, **changes))


@pytest.mark.parametrize("record", [b"", RECORD, b"\x9a", with_annotation(RECORD, b"number 7")])
def test_other_records_have_no_entry(record: bytes) -> None:
    assert decode_order_entry(annotation_of(record)) is None


def test_an_entry_of_a_later_version_is_none() -> None:
    fields = msgpack.unpackb(encode_order_entry(LATE))
    assert decode_order_entry(msgpack.packb([fields[0], 2, *fields[2:]])) is None
    assert decode_order_entry(msgpack.packb([*fields, None])) is None
    assert decode_order_entry(msgpack.packb(fields[:-1])) is None


@given(st.sampled_from(ENTRIES), st.data())
def test_altered_bytes_are_another_entry_or_none(
    case: tuple[OrderEntry, str], data: st.DataObject
) -> None:
    altered = bytearray.fromhex(case[1])
    for _ in range(data.draw(st.integers(1, 3))):
        altered[data.draw(st.integers(0, len(altered) - 1))] = data.draw(st.integers(0, 255))
    altered = altered[: data.draw(st.integers(0, len(altered)))]
    altered += data.draw(st.binary(max_size=3))
    found = decode_order_entry(bytes(altered))
    if found is not None:
        assert decode_order_entry(encode_order_entry(found)) == found


@given(st.binary(max_size=60))
def test_any_bytes_raise_nothing(rest: bytes) -> None:
    for start in (b"", encode_order_entry(LATE)[:8]):
        decode_order_entry(start + rest)
        decode_order_entry(annotation_of(with_annotation(RECORD, start + rest)))


@pytest.mark.parametrize("stamp", [None, -5, 2**62])
@pytest.mark.parametrize("tie", ["", "b"])
def test_the_entries_of_a_run_have_the_same_bytes(stamp: int | None, tie: str) -> None:
    expected = [
        encode_order_entry(
            OrderEntry(
                *("ops", "a", 2, 127 + index, None if stamp is None else stamp + index),
                *("hybrid", 80),
                tie=tie,
            )
        )
        for index in range(3)
    ]
    assert encode_run("ops", ("a", 2, 127), stamp, "hybrid", 80, tie, 3) == expected
