"""Events in chunks, by themselves and under a cursor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import lmdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.store.chunks import Chunk, encode_chunk, encode_key, page, portions
from broker.store.records import LoggedEvent

events = st.lists(
    st.builds(
        LoggedEvent,
        epoch=st.integers(0, 2**32 - 1),
        offset=st.integers(0, 2**64 - 1),
        arrival=st.integers(0, 2**64 - 1),
        level=st.integers(0, 2),
        record=st.binary(max_size=40),
        document=st.binary(max_size=200),
        origin=st.just("n"),
        serial=st.just(0),
    ),
    min_size=1,
    max_size=9,
)


def fields(event: LoggedEvent) -> tuple[object, ...]:
    return attrs.astuple(event)


@given(events, st.integers(0, 2**40), st.booleans(), st.data())
def test_a_chunk_gives_back_what_was_put_in(
    given_events: list[LoggedEvent], first: int, view: bool, data: st.DataObject
) -> None:
    for serial, event in enumerate(given_events, first):
        event.serial = serial
    value = encode_chunk(given_events)
    chunk = Chunk(first, memoryview(value) if view else value)
    assert (chunk.first, chunk.last) == (first, given_events[-1].serial)
    start = data.draw(st.integers(first, chunk.last))
    expected = [event for event in given_events if event.serial >= start]
    assert list(map(fields, chunk.events(start))) == list(map(fields, expected))
    assert (chunk.mark(start), chunk.arrival(start)) == (expected[0].mark, expected[0].arrival)
    assert chunk.origin == "n"


@given(st.lists(st.integers(0, 300), max_size=30), st.integers(1, 1000))
def test_portions_cover_everything_and_are_as_large_as_allowed(sizes: list[int], most: int) -> None:
    made = [
        LoggedEvent(1, offset, 0, 0, b"", b"x" * size, "n", offset)
        for offset, size in enumerate(sizes)
    ]
    cut = list(portions(most, made))
    assert [i for start, end in cut for i in range(start, end)] == list(range(len(made)))
    total = [sum(event.size for event in made[start:end]) for start, end in cut]
    assert all(
        size <= most or end - start == 1 for size, (start, end) in zip(total, cut, strict=True)
    )
    for size, (_, end) in zip(total[:-1], cut, strict=False):
        assert size + made[end].size > most


@pytest.fixture
def cursor(tmp_path: Path) -> Iterator[lmdb.Cursor]:
    """Chunks of offsets 11 to 13, 14, and 15 to 19."""
    with lmdb.open(str(tmp_path)) as env, env.begin(write=True, buffers=True) as txn:
        for first, end in ((11, 14), (14, 15), (15, 20)):
            chunk = [LoggedEvent(1, o, 0, 0, b"r", b"%d" % o, "n", o) for o in range(first, end)]
            txn.put(encode_key(first), encode_chunk(chunk))
        with txn.cursor() as cursor:
            yield cursor


@pytest.mark.parametrize(
    ("offset", "first"),
    [(0, 11), (11, 11), (13, 11), (14, 14), (15, 15), (19, 15), (20, None), (2**60, None)],
)
def test_the_chunk_of_an_offset_is_found(
    cursor: lmdb.Cursor, offset: int, first: int | None
) -> None:
    chunk = Chunk.holding(cursor, offset)
    assert (None if chunk is None else chunk.first) == first
    if chunk is not None:
        assert Chunk.under(cursor).first == first


def test_a_page_begins_and_ends_within_chunks(cursor: lmdb.Cursor) -> None:
    assert [event.offset for event in page(cursor, 12, 5)] == [12, 13, 14, 15, 16]
    assert [event.offset for event in page(cursor, 3, 100)] == list(range(11, 20))
    assert [event.offset for event in page(cursor, 13, 100, max_bytes=100)] == [13, 14]
    assert page(cursor, 20, 100) == []


def test_a_page_of_copies_outlives_its_transaction(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path)) as env:
        with env.begin(write=True, buffers=True) as txn:
            txn.put(encode_key(1), encode_chunk([LoggedEvent(1, 1, 0, 0, b"r", b"<e/>", "n", 1)]))
        with env.begin(buffers=True) as txn, txn.cursor() as cursor:
            (event,) = page(cursor, 1, 1)
    assert (type(event.document), event.document, event.record) == (bytes, b"<e/>", b"r")
