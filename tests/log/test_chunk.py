from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from broker.log.chunk import Chunk, encode_chunk, split_by_size
from broker.log.logged_event import LoggedEvent

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
def test_a_chunk_round_trips(
    given_events: list[LoggedEvent], first: int, view: bool, data: st.DataObject
) -> None:
    for serial, event in enumerate(given_events, first):
        event.serial = serial
    value = encode_chunk(given_events)
    chunk = Chunk(first, memoryview(value) if view else value)
    assert (chunk.first, chunk.last) == (first, given_events[-1].serial)
    start = data.draw(st.integers(first, chunk.last))
    expected = [event for event in given_events if event.serial >= start]
    assert list(map(fields, chunk.events_from(start))) == list(map(fields, expected))
    assert (chunk.mark_at(start), chunk.arrival_at(start)) == (
        expected[0].mark,
        expected[0].arrival,
    )
    assert chunk.origin == "n"


@given(st.lists(st.integers(0, 300), max_size=30), st.integers(1, 1000))
def test_portions_cover_everything_and_are_as_large_as_allowed(sizes: list[int], most: int) -> None:
    made = [
        LoggedEvent(1, offset, 0, 0, b"", b"x" * size, "n", offset)
        for offset, size in enumerate(sizes)
    ]
    cut = list(split_by_size(most, made))
    assert [i for start, end in cut for i in range(start, end)] == list(range(len(made)))
    total = [sum(event.size for event in made[start:end]) for start, end in cut]
    assert all(
        size <= most or end - start == 1 for size, (start, end) in zip(total, cut, strict=True)
    )
    for size, (_, end) in zip(total[:-1], cut, strict=False):
        assert size + made[end].size > most
