"""Encoding of the messages of searches and pages."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.address import Address
from broker.cluster.messages import decode, encode
from broker.errors import ProtocolError
from broker.log.logged_event import LoggedEvent
from broker.recovery.messages import (
    MAX_SEARCHED,
    DurablesFound,
    FindDurables,
    pack_events,
    unpack_events,
)

HERE, THERE = Address(("alps", "a"), "a1"), Address(("sea",), "c1")
WANTED = st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9)), max_size=5).map(tuple)
UNITS = st.none() | st.lists(st.sampled_from(["alps", "a"]), max_size=3).map(tuple)
NUMBERS = st.integers(0, 2**64 - 1)
FOUND = st.lists(st.tuples(NUMBERS, st.text(max_size=30)), max_size=5).map(tuple)


@given(NUMBERS, WANTED, UNITS, NUMBERS)
def test_requests_survive_encoding(number: int, wanted: Any, unit: Any, ms: int) -> None:
    said = FindDurables(HERE, THERE, 9, number, wanted, unit, ms)
    assert decode(encode(said)) == said


@given(NUMBERS, FOUND, st.booleans())
def test_answers_survive_encoding(number: int, found: Any, whole: bool) -> None:
    said = DurablesFound(HERE, THERE, 9, number, found, whole)
    assert decode(encode(said)) == said


@pytest.mark.parametrize(
    "fields",
    [
        (0x86, 1, [["c", "d"]] * (MAX_SEARCHED + 1), None, 5),
        (0x86, 1, [["c"]], None, 5),
        (0x86, 1, [["c", 5]], None, 5),
        (0x86, 1, 5, None, 5),
        (0x86, 1, [], ["no unit"], 5),
        (0x86, 1, [], ["a"] * 9, 5),
        (0x86, 1, [], None, -5),
        (0x87, 1, [[0]], True),
        (0x87, 1, [[-1, "a/b"]], True),
        (0x87, 1, [[0, "a" * 2000]], True),
        (0x87, 1, [], 1),
    ],
    ids=str,
)
def test_a_malformed_message_is_a_protocol_error(fields: tuple[Any, ...]) -> None:
    kind, *rest = fields
    with pytest.raises(ProtocolError):
        decode(bytes([kind]) + msgpack.packb((tuple(HERE), tuple(THERE), 9, *rest)))


def made(first: int, count: int, origin: str) -> list[LoggedEvent]:
    numbers = range(first, first + count)
    return [LoggedEvent(1, n, 5, 1, b"record%d" % n, b"<d>%d</d>" % n, origin, 0) for n in numbers]


def test_events_survive_packing() -> None:
    events = [*made(1, 3, "a"), *made(7, 2, "b"), *made(4, 1, "a")]
    unpacked = unpack_events(pack_events(events))
    assert [(each.place, each.record, each.document) for each in unpacked] == [
        (each.place, each.record, each.document) for each in events
    ]


def test_a_chunk_with_a_wrong_length_is_refused() -> None:
    [chunk] = pack_events(made(1, 3, "a"))
    for length in range(len(chunk)):
        with pytest.raises(ProtocolError):
            unpack_events([chunk[:length]])
    with pytest.raises(ProtocolError):
        unpack_events([chunk + b"\0"])


@pytest.mark.parametrize("count", [0, 1 << 20, (1 << 32) - 1])
def test_a_chunk_with_an_impossible_count_is_refused(count: int) -> None:
    [chunk] = pack_events(made(1, 3, "a"))
    with pytest.raises(ProtocolError):
        unpack_events([count.to_bytes(4, "big") + chunk[4:]])
