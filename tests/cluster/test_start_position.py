from __future__ import annotations

import pytest

from broker.cluster.start_position import MAX_CLOCK_SKEW, StartPositions
from broker.event.origin import new_origin
from broker.event.place import Mark

FIRST: Mark = (0, 0)
THERE: Mark = (2, 30)
NOW = 1_700_000_000_000


class Setting:
    def __init__(self) -> None:
        self.now = NOW
        self.positions = StartPositions(lambda: self.now)

    def begins(self, age: int = 0) -> Mark:
        """Return the start for an origin that is `age` ms older than NOW."""
        return self.positions.start_of(new_origin(NOW - age), THERE)


def test_without_keys_the_given_mark_is_the_start() -> None:
    assert Setting().begins() == THERE


def test_an_origin_younger_than_a_key_is_read_from_its_first_event() -> None:
    setting = Setting()
    setting.positions.add_key("one")
    assert setting.begins(age=MAX_CLOCK_SKEW) == FIRST
    assert setting.begins(age=MAX_CLOCK_SKEW + 1000) == THERE
    setting.positions.remove_key("one")
    assert setting.begins() == THERE


def test_an_origin_of_unknown_age_is_old() -> None:
    setting = Setting()
    setting.positions.add_key("one")
    assert setting.positions.start_of("a" * 16, THERE) == THERE


def test_the_oldest_key_decides() -> None:
    setting = Setting()
    setting.positions.add_key("one")
    setting.now += 10 * MAX_CLOCK_SKEW
    setting.positions.add_key("two")
    setting.positions.add_key("one")
    assert setting.begins() == FIRST
    setting.positions.remove_key("one")
    assert setting.begins() == THERE


def test_an_empty_origin_keeps_the_given_mark() -> None:
    setting = Setting()
    setting.positions.add_key("one")
    assert setting.positions.start_of(new_origin(NOW), (1, 0)) == (1, 0)


def test_a_resume_position_limits_the_start() -> None:
    setting = Setting()
    young, other = new_origin(NOW), new_origin(NOW)
    setting.positions.add_key("one", {young: (1, 7)})
    setting.positions.add_key("two", {young: (1, 9)})
    assert setting.positions.start_of(young, THERE) == (1, 7)
    assert setting.positions.start_of(young, (1, 3)) == (1, 3)
    assert setting.positions.start_of(other, THERE) == FIRST
    assert setting.positions.resume_marks == {young: (1, 7)}
    setting.positions.add_key("three", {other: (1, 2)})
    assert setting.positions.start_of(young, THERE) == FIRST
    setting.positions.remove_key("three")
    assert setting.positions.start_of(young, THERE) == (1, 7)
    setting.positions.add_key("three")
    assert setting.positions.start_of(young, THERE) == FIRST
    for key in ("one", "two", "three"):
        setting.positions.remove_key(key)
    assert setting.positions.resume_marks == {}
    assert setting.positions.start_of(young, THERE) == THERE


@pytest.mark.parametrize("offsets", [(7, 9), (9, 7)])
def test_the_lowest_resume_mark_counts_in_any_order(
    offsets: tuple[int, int],
) -> None:
    setting = Setting()
    young = new_origin(NOW)
    for offset in offsets:
        setting.positions.add_key(offset, {young: (1, offset)})
    assert setting.positions.resume_marks == {young: (1, 7)}
    assert setting.positions.start_of(young, THERE) == (1, 7)


def test_a_resume_position_may_follow_later() -> None:
    setting = Setting()
    young = new_origin(NOW)
    setting.positions.add_key("one", {})
    assert setting.positions.start_of(young, THERE) == FIRST
    setting.now += 10 * MAX_CLOCK_SKEW
    setting.positions.add_key("one", {young: (1, 7)})
    setting.positions.add_key("one")
    assert setting.positions.start_of(young, THERE) == (1, 7)
    assert setting.begins() == FIRST


def test_a_dead_origin_must_be_younger_without_clock_skew() -> None:
    setting = Setting()
    assert setting.positions.start_of_dead(new_origin(NOW)) is None
    setting.positions.add_key("one")
    assert setting.positions.start_of_dead(new_origin(NOW)) == FIRST
    assert setting.positions.start_of_dead(new_origin(NOW - 1)) is None
    setting.positions.remove_key("one")
    setting.now = NOW + 1
    setting.positions.add_key("one")
    assert setting.positions.start_of_dead(new_origin(NOW)) is None
    old = new_origin(NOW - 10 * MAX_CLOCK_SKEW)
    setting.positions.add_key("two", {old: THERE})
    assert setting.positions.start_of_dead(old) == THERE


def test_the_oldest_key_decides_if_its_position_comes_behind_that_of_a_later_one() -> None:
    setting = Setting()
    other = new_origin(NOW)
    setting.positions.add_key("one")
    setting.now += 2_000
    setting.positions.add_key("two", {other: (1, 9)})
    setting.positions.add_key("one", {other: (1, 7)})
    between = new_origin(NOW + 1_000)
    assert setting.positions.start_of_dead(between) == FIRST
    setting.positions.add_key("one", {other: (1, 8)})
    assert setting.positions.start_of_dead(between) == FIRST
    setting.positions.remove_key("one")
    assert setting.positions.start_of_dead(between) is None
