from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.archive.layout import (
    MAX_PARTITIONS,
    assign_partitions,
    check_writer_name,
    events_path,
    hour_end,
    hour_of,
    hour_start,
    partition_contains,
    partition_may_match,
)
from broker.errors import BadName
from broker.event.stream import StreamPattern

_TOKEN = st.sampled_from(["a", "b", "c", "long" * 16])
_STREAM = st.lists(_TOKEN, min_size=1, max_size=16).map(".".join)
_PATTERN = st.tuples(
    st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=4), st.booleans()
).map(lambda made: ".".join(made[0] + [">"] * made[1]))


@given(st.sets(_STREAM, max_size=60), st.integers(1, 16))
def test_streams_share_at_most_the_allowed_partitions(streams: set[str], most: int) -> None:
    partitions = assign_partitions(streams, most)
    assert partitions.keys() == streams
    assert len(set(partitions.values())) <= most
    for stream, partition in partitions.items():
        assert partition_contains(partition, stream)
        assert len(partition) <= 200


def test_few_streams_have_partitions_of_their_own() -> None:
    streams = {f"asdi.zbw.{number}" for number in range(MAX_PARTITIONS)}
    assert assign_partitions(streams) == {stream: stream for stream in streams}
    many = streams | {"asdi.zbw.more", "voevent"}
    assert set(assign_partitions(many).values()) == {"asdi.zbw.+", "voevent"}


@given(_PATTERN, st.lists(st.sampled_from("abc"), min_size=1, max_size=5), st.integers(0, 4))
def test_no_partition_with_a_match_is_skipped(text: str, tokens: list[str], depth: int) -> None:
    pattern, stream = StreamPattern.parse(text), ".".join(tokens)
    partition = ".".join([*tokens[:depth], "+"]) if depth < len(tokens) else stream
    if pattern.matches(stream):
        assert partition_may_match(partition, pattern)


def test_a_partition_without_a_match_is_skipped() -> None:
    pattern = StreamPattern.parse("asdi.*.tz")
    assert not partition_may_match("voevent", pattern)
    assert not partition_may_match("voevent.+", pattern)
    assert not partition_may_match("asdi.zbw.tz.+", pattern)
    assert partition_may_match("asdi.zbw.+", pattern)
    assert partition_may_match("+", pattern)


@given(st.integers(0, 4_000_000_000_000))
def test_an_hour_contains_its_arrivals(arrival: int) -> None:
    hour = hour_of(arrival)
    assert hour_start(hour) <= arrival < hour_end(hour)


@given(st.text(max_size=20))
def test_no_origin_escapes_from_its_folder(origin: str) -> None:
    path = events_path("s", "2026-11-20T07", origin, (1, 2), 3, "ff")
    assert path.count("/") == 3
    assert ".." not in path.split("/")


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 101, "a\n"])
def test_an_invalid_writer_name_is_rejected(name: str) -> None:
    with pytest.raises(BadName):
        check_writer_name(name)
