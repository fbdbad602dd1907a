from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config.units import format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("7d", 604800.0),
        ("12h", 43200.0),
        ("30m", 1800.0),
        ("10s", 10.0),
        ("5ms", 0.005),
        ("1.5 h", 5400.0),
        ("3", 3.0),
        (0, 0.0),
        (0.25, 0.25),
    ],
)
def test_a_duration_is_a_number_of_seconds_or_a_number_and_a_unit(
    written: object, seconds: float
) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("1GiB", 2**30),
        ("64MiB", 64 * 2**20),
        ("10kB", 10_000),
        ("1.5KiB", 1536),
        ("7", 7),
        ("2 TB", 2 * 10**12),
        (4096, 4096),
        (4096.0, 4096),
    ],
)
def test_a_size_is_a_number_of_bytes_or_a_number_and_a_unit(written: object, size: int) -> None:
    assert parse_size(written) == size


@pytest.mark.parametrize(
    "written",
    ["", "d", "-1s", "7 weeks", "1d12h", "1e3s", "٣s", "1 000s", True, None, -1, float("nan")],
)
def test_an_invalid_duration_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="."):
        parse_duration(written)


@pytest.mark.parametrize(
    "written", ["1kb", "1K", "0.5B", 0.5, "-1", True, [], float("inf"), 10**400]
)
def test_an_invalid_size_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="."):
        parse_size(written)


def test_a_wrong_unit_is_answered_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match="'weeks' is not one of ms, s, m, h, d"):
        parse_duration("7 weeks")


@given(st.integers(0, 10**15))
def test_a_size_survives_writing_and_reading(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.integers(0, 10**12))
def test_a_duration_of_whole_milliseconds_survives_writing_and_reading(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"), [(604800.0, "7d"), (0.005, "5ms"), (90.0, "90s"), (0.0, "0s")]
)
def test_a_duration_is_written_in_its_largest_whole_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(("size", "text"), [(2**30, "1GiB"), (10_000, "10kB"), (0, "0B")])
def test_a_size_is_written_as_short_as_possible(size: int, text: str) -> None:
    assert format_size(size) == text
