"""Ranges that are larger than a packet."""

from __future__ import annotations

import struct
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import ProtocolError
from plugins.dcp.parts import (
    MOST_MISSING,
    MOST_UNFINISHED_BYTES,
    PART_BYTES,
    MissingParts,
    PartKey,
    PartStore,
    split_parts,
)

KEY = PartKey(1, 10, 20)


def make_part(number: int, count: int, content: bytes = b"x") -> bytes:
    return struct.pack(">HH", number, count) + content


def add_all(store: PartStore, key: PartKey, parts: list[bytes]) -> list[bytes | None]:
    return [store.add_part(key, each) for each in parts]


@given(st.binary(min_size=1, max_size=300), st.integers(PART_BYTES + 1, 60))
def test_parts_fit_and_are_as_few_as_possible(body: bytes, room: int) -> None:
    parts = split_parts(body, room)
    size = room - PART_BYTES
    assert [struct.unpack_from(">HH", each) for each in parts] == [
        (number, len(parts)) for number in range(len(parts))
    ]
    assert b"".join(each[PART_BYTES:] for each in parts) == body
    assert max(map(len, parts)) <= room
    assert (len(parts) - 1) * size < len(body)


def test_more_parts_than_numbers() -> None:
    assert len(split_parts(bytes(65_535), PART_BYTES + 1)) == 65_535
    with pytest.raises(ValueError):
        split_parts(bytes(65_536), PART_BYTES + 1)


@pytest.mark.parametrize("seed", range(20))
def test_parts_come_in_any_order_and_repeated(seed: int) -> None:
    random = Random(seed)
    bodies = {
        PartKey(index, previous, previous + 9): random.randbytes(random.randint(20, 200))
        for index in (1, 2)
        for previous in (0, 9)
    }
    store, whole = PartStore(), {}
    arrivals = [(key, part) for key, body in bodies.items() for part in split_parts(body, 15)]
    random.shuffle(arrivals)
    remaining = {key: len(split_parts(body, 15)) for key, body in bodies.items()}
    for key, part in arrivals:
        found = store.add_part(key, part)
        remaining[key] -= 1
        assert (found is not None) == (remaining[key] == 0)
        if found is not None:
            whole[key] = found
        elif random.random() < 0.5:
            assert store.add_part(key, part) is None
    assert whole == bodies
    assert store.find_missing(1) is None and store.find_missing(2) is None


def test_the_first_copy_of_a_part_counts() -> None:
    store = PartStore()
    assert store.add_part(KEY, make_part(0, 2, b"first")) is None
    assert store.add_part(KEY, make_part(0, 2, b"other")) is None
    assert store.add_part(KEY, make_part(1, 2, b" end")) == b"first end"


def test_the_same_range_may_come_again() -> None:
    store = PartStore()
    parts = split_parts(b"0123456789", 9)
    assert add_all(store, KEY, parts) == [None, b"0123456789"]
    assert add_all(store, KEY, parts) == [None, b"0123456789"]


@pytest.mark.parametrize(
    "contradiction",
    [make_part(1, 3), make_part(2, 2), make_part(0, 1), make_part(1, 0), make_part(65_535, 65_535)],
)
def test_a_part_that_contradicts_the_others(contradiction: bytes) -> None:
    store = PartStore()
    assert store.add_part(KEY, make_part(0, 2, b"ab")) is None
    with pytest.raises(ProtocolError):
        store.add_part(KEY, contradiction)
    # It changes nothing.
    assert store.find_missing(KEY.sequence) == MissingParts(10, 20, [1])
    assert store.add_part(KEY, make_part(1, 2, b"cd")) == b"abcd"


@pytest.mark.parametrize("body", [b"", b"\0", make_part(0, 2, b""), make_part(0, 0), b"\0\0\0"])
def test_a_part_without_bytes_or_number(body: bytes) -> None:
    store = PartStore()
    with pytest.raises(ProtocolError):
        store.add_part(KEY, body)
    assert store.find_missing(KEY.sequence) is None


@given(st.lists(st.binary(max_size=12), max_size=20))
def test_any_bytes_are_a_part_or_a_protocol_error(bodies: list[bytes]) -> None:
    store = PartStore(100)
    for body in bodies:
        try:
            whole = store.add_part(KEY, body)
        except ProtocolError:
            continue
        assert whole is None or len(whole) >= 1


def test_the_oldest_unfinished_range_is_dropped() -> None:
    store = PartStore(most_bytes=100)
    keys = [PartKey(1, 10 * number, 10 * number + 10) for number in range(4)]
    for key in keys:
        assert store.add_part(key, make_part(0, 2, bytes(20))) is None
    # Each has 26 bytes: those of the part, and one for each number.
    assert store.dropped == 1
    assert store.find_missing(1) == MissingParts(10, 20, [1])
    assert store.add_part(keys[1], make_part(1, 2)) == bytes(20) + b"x"
    assert store.add_part(keys[0], make_part(1, 2)) is None


def test_ranges_that_never_end_are_bounded() -> None:
    store, content = PartStore(), bytes(1_000)
    each_bytes = 65_535 + PART_BYTES + len(content)
    room = MOST_UNFINISHED_BYTES // each_bytes
    for number in range(100):
        store.add_part(PartKey(1, number, number + 1), make_part(7, 65_535, content))
    assert store.dropped == 100 - room
    missing = store.find_missing(1)
    assert missing is not None and missing.previous == 100 - room


def test_a_range_above_the_bound_is_never_whole() -> None:
    store = PartStore(most_bytes=100)
    parts = split_parts(bytes(300), 54)
    assert add_all(store, KEY, parts) == [None] * 6
    assert store.dropped >= 2


def test_a_finished_range_frees_its_room() -> None:
    store = PartStore(most_bytes=100)
    for number in range(50):
        key = PartKey(1, number, number + 1)
        assert store.add_part(key, make_part(0, 2, bytes(30))) is None
        assert store.add_part(key, make_part(1, 2, bytes(30))) == bytes(60)
    assert store.dropped == 0


def test_missing_parts_are_those_of_the_first_range_of_a_sequence() -> None:
    store = PartStore()
    store.add_part(PartKey(1, 20, 30), make_part(0, 4))
    store.add_part(PartKey(1, 10, 20), make_part(2, 4))
    store.add_part(PartKey(2, 0, 9), make_part(1, 2))
    assert store.find_missing(1) == MissingParts(10, 20, [0, 1, 3])
    assert store.find_missing(2) == MissingParts(0, 9, [0])
    assert store.find_missing(3) is None


def test_the_number_of_missing_parts_is_bounded() -> None:
    store = PartStore()
    store.add_part(KEY, make_part(5, 1_000))
    missing = store.find_missing(1)
    assert missing is not None
    assert list(missing.numbers) == [*range(5), *range(6, MOST_MISSING + 1)]


def test_ranges_up_to_an_an_are_removed() -> None:
    store = PartStore()
    for key in (PartKey(1, 0, 10), PartKey(1, 10, 20), PartKey(1, 20, 30), PartKey(2, 0, 10)):
        store.add_part(key, make_part(0, 2))
    store.remove_until(1, 20)
    assert store.find_missing(1) == MissingParts(20, 30, [1])
    assert store.find_missing(2) == MissingParts(0, 10, [1])
    store.remove_until(1, 29)
    assert store.find_missing(1) is not None
    store.remove_until(1, 30)
    assert store.find_missing(1) is None


def test_removed_ranges_free_their_room() -> None:
    store = PartStore(most_bytes=100)
    for number in range(20):
        key = PartKey(1, number, number + 1)
        assert store.add_part(key, make_part(0, 3, bytes(60))) is None
        store.remove_until(1, number + 1)
    assert store.dropped == 0
