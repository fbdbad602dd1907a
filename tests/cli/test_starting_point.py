from __future__ import annotations

import pytest

from broker.cli.starting_point import parse_end, parse_start
from broker.client.received import ALL, NEW, STORED, Start, since, since_time
from broker.event.place import Position


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("new", NEW),
        ("all", ALL),
        ("stored", STORED),
        ("1795000000123", since_time(1795000000123)),
        ("1970-01-01T00:00:10Z", since_time(10_000)),
        ("1970-01-01T00:00:10", since_time(10_000)),
        ("1970-01-01T01:00:10.5+01:00", since_time(10_500)),
        ("1970-01-02", since_time(86_400_000)),
        ("origin:1:5", since(Position({"origin": (1, 5)}))),
        ("a:1:5,b:2:7", since(Position({"a": (1, 5), "b": (2, 7)}))),
        ("start", since(Position())),
    ],
)
def test_a_start_is_a_word_a_time_or_a_position(text: str, start: Start) -> None:
    assert parse_start(text) == start


@pytest.mark.parametrize("text", ["", "old", "a:b", "a:1", "a:x:1", "1969-12-31", "2026-13-01"])
def test_any_other_text_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"give new, all, stored|before 1970"):
        parse_start(text)


NOW = 1_795_000_000_000


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("1795000000123", 1795000000123),
        ("1970-01-01T00:00:10Z", 10_000),
        ("origin:1:5", Position({"origin": (1, 5)})),
        ("90s", NOW - 90_000),
        ("1h30m", NOW - 5_400_000),
        ("7d ago", NOW - 7 * 86_400_000),
        ("1w-ago", NOW - 7 * 86_400_000),
        ("0.5s", NOW - 500),
    ],
)
def test_an_end_is_a_position_a_time_or_how_long_ago(text: str, end: Position | int) -> None:
    assert parse_end(text, NOW) == end


@pytest.mark.parametrize("text", ["", "ago", "7x", "-3s", "m", "all", "1m1h", "999999999w", "a:1"])
def test_an_invalid_end_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="give a time|before 1970"):
        parse_end(text, NOW)
