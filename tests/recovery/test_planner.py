"""The order of sources, and the ranges that remain after each."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from broker.delivery.recovery_contract import MarkRange
from broker.event.place import Mark
from broker.recovery.planner import (
    MAX_LOG_PLACES,
    OWN_LOG,
    AvailableSources,
    RemainingRanges,
    count_places,
    missing_ranges,
    plan_steps,
)

RANGES: Mapping[str, MarkRange] = {"a": ((1, 0), (1, 10)), "b": ((1, 5), (1, 9))}
LARGE: Mapping[str, MarkRange] = {"a": ((1, 0), (1, MAX_LOG_PLACES + 1))}
OPEN: Mapping[str, MarkRange] = {"a": ((1, 0), None)}


@pytest.mark.parametrize(
    ("ranges", "sources", "all_origins", "asked"),
    [
        (RANGES, AvailableSources("", "ab", True), False, ["logs", "archive"]),
        (RANGES, AvailableSources("", "a", True), False, ["archive", "logs"]),
        (RANGES, AvailableSources("", "", True), False, ["archive"]),
        (RANGES, AvailableSources("", "a", False), False, ["logs"]),
        (RANGES, AvailableSources("n", "ab", False), False, ["former", "logs"]),
        (RANGES, AvailableSources("n", "ab", True), True, ["former", "archive", "logs"]),
        (RANGES, AvailableSources("", "", False), False, []),
        (RANGES, AvailableSources("", "", False, is_alone=True), False, [OWN_LOG]),
        (RANGES, AvailableSources("n", "", False, is_alone=True), False, ["former"]),
        (LARGE, AvailableSources("n", "a", True), False, ["archive", "logs"]),
        (LARGE, AvailableSources("n", "a", False), False, ["former", "logs"]),
        (
            LARGE,
            AvailableSources("n", "a", True, is_unbounded=True),
            False,
            ["former", "logs", "archive"],
        ),
        (
            {"a": ((1, 0), (1, MAX_LOG_PLACES))},
            AvailableSources("", "a", True),
            False,
            ["logs", "archive"],
        ),
        (
            {"a": ((1, 0), (1, MAX_LOG_PLACES))},
            AvailableSources("", "a", True, active_recoveries=1),
            False,
            ["archive", "logs"],
        ),
        (OPEN, AvailableSources("n", "a", True), False, ["former", "logs", "archive"]),
    ],
)
def test_sources_are_asked_in_this_order(
    ranges: Mapping[str, MarkRange], sources: AvailableSources, all_origins: bool, asked: list[str]
) -> None:
    steps = plan_steps(ranges, sources, all_origins=all_origins)
    assert [step.source for step in steps] == asked
    for step in steps:
        near = {origin: each for origin, each in ranges.items() if origin in sources.log_origins}
        assert step.ranges == (near if step.source == "logs" else ranges)


def test_each_step_has_a_reason() -> None:
    def why(
        ranges: Mapping[str, MarkRange], sources: AvailableSources, *, all_origins: bool = False
    ) -> str:
        return next(
            s.why
            for s in plan_steps(ranges, sources, all_origins=all_origins)
            if s.source == "archive"
        )

    archive = AvailableSources("", "", True)
    assert why(RANGES, archive, all_origins=True) == "it has all past events"
    assert why(LARGE, archive, all_origins=True) == "it has all past events"
    assert why(RANGES, archive) == "it has events that no log has any more"
    assert why(LARGE, archive) == "100001 places are more than logs are read for now (100000)"


def test_places_are_counted_where_all_ranges_end() -> None:
    assert count_places(RANGES) == 14 and count_places({}) == 0
    assert count_places({**RANGES, "c": ((1, 0), None)}) is None


def test_missing_ranges_lie_before_the_last_archived_event() -> None:
    covered: list[tuple[Mark, Mark]] = [((1, 2), (1, 4)), ((1, 6), (1, 8))]
    assert missing_ranges((1, 0), (1, 9), covered) == [((1, 0), (1, 2)), ((1, 4), (1, 6))]
    assert missing_ranges((1, 0), None, covered) == [((1, 0), (1, 2)), ((1, 4), (1, 6))]
    assert missing_ranges((1, 0), (1, 5), covered) == [((1, 0), (1, 2)), ((1, 4), (1, 5))]
    assert missing_ranges((1, 0), (1, 5), []) == []
    assert missing_ranges((1, 4), (2, 4), [((2, 4), (2, 6))]) == [], "an epoch without events"


def test_read_parts_do_not_remain() -> None:
    left = RemainingRanges({**RANGES, "c": ((1, 7), (2, 7))})
    assert left.ranges == RANGES, "an epoch without events is nothing to ask for"
    left.advance({"a": (1, 4), "b": (1, 9), "d": (1, 1)})
    assert left.ranges == {"a": ((1, 4), (1, 10))}
    left.advance({"a": (1, 3)})
    assert left.ranges == {"a": ((1, 4), (1, 10))}
    before = left.copy()
    left.advance({"a": (1, 12)})
    assert left.ranges == {}
    left.restore(before)
    assert left.ranges == {"a": ((1, 4), (1, 10))}


def test_open_ranges_can_be_closed() -> None:
    ranges: dict[str, MarkRange] = {"z": ((1, 0), (1, 2))}
    ranges |= dict.fromkeys("abcde", ((1, 3), None))
    left = RemainingRanges(ranges, {"a": (1, 9), "b": (2, 5), "c": (1, 3), "e": (1, 9)})
    reached: dict[str, Mark] = {"a": (1, 5), "b": (1, 5), "e": (2, 4)}
    left.advance(reached)
    assert left.open_ends == {**reached, "c": (1, 3), "d": (1, 3)}
    left.close_ranges(["z", "unknown", "a"])
    assert left.ranges == {
        "z": ((1, 0), (1, 2)),
        "a": ((1, 5), (1, 9)),
        "b": ((1, 5), None),
        "c": ((1, 3), None),
        "d": ((1, 3), None),
        "e": ((2, 4), None),
    }
    left.close_all()
    # An empty epoch began in `b`; `e` was restored, and continued.
    assert left.ranges == {"z": ((1, 0), (1, 2)), "a": ((1, 5), (1, 9))}
    assert RemainingRanges({"a": ((0, 0), None)}).ranges == {"a": ((0, 0), None)}
