"""Where a node begins with origins that are new to it."""

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
        self.newcomers = StartPositions(lambda: self.now)

    def begins(self, age: int = 0) -> Mark:
        """With an origin that is `age` ms older than NOW."""
        return self.newcomers.start_of(new_origin(NOW - age), THERE)


def test_where_nothing_waits_it_begins_where_it_is_told() -> None:
    assert Setting().begins() == THERE


def test_all_of_an_origin_is_wanted_that_is_younger_than_what_waits() -> None:
    setting = Setting()
    setting.newcomers.add_key("one")
    assert setting.begins(age=MAX_CLOCK_SKEW) == FIRST
    assert setting.begins(age=MAX_CLOCK_SKEW + 1000) == THERE
    setting.newcomers.remove_key("one")
    assert setting.begins() == THERE


def test_an_origin_of_unknown_age_is_old() -> None:
    setting = Setting()
    setting.newcomers.add_key("one")
    assert setting.newcomers.start_of("a" * 16, THERE) == THERE


def test_what_has_waited_for_the_longest_counts() -> None:
    setting = Setting()
    setting.newcomers.add_key("one")
    setting.now += 10 * MAX_CLOCK_SKEW
    setting.newcomers.add_key("two")
    setting.newcomers.add_key("one")
    assert setting.begins() == FIRST
    setting.newcomers.remove_key("one")
    assert setting.begins() == THERE


def test_before_the_first_event_there_is_nothing_to_begin_with() -> None:
    setting = Setting()
    setting.newcomers.add_key("one")
    assert setting.newcomers.start_of(new_origin(NOW), (1, 0)) == (1, 0)


def test_what_goes_on_at_a_place_wants_no_more() -> None:
    setting = Setting()
    young, other = new_origin(NOW), new_origin(NOW)
    setting.newcomers.add_key("one", {young: (1, 7)})
    setting.newcomers.add_key("two", {young: (1, 9)})
    assert setting.newcomers.start_of(young, THERE) == (1, 7)
    assert setting.newcomers.start_of(young, (1, 3)) == (1, 3)
    assert setting.newcomers.start_of(other, THERE) == FIRST
    assert setting.newcomers.resume_marks == {young: (1, 7)}
    setting.newcomers.add_key("three", {other: (1, 2)})
    assert setting.newcomers.start_of(young, THERE) == FIRST
    setting.newcomers.remove_key("three")
    assert setting.newcomers.start_of(young, THERE) == (1, 7)
    setting.newcomers.add_key("three")
    assert setting.newcomers.start_of(young, THERE) == FIRST
    for key in ("one", "two", "three"):
        setting.newcomers.remove_key(key)
    assert setting.newcomers.resume_marks == {}
    assert setting.newcomers.start_of(young, THERE) == THERE


@pytest.mark.parametrize("offsets", [(7, 9), (9, 7)])
def test_the_lowest_of_the_places_counts_in_whatever_order_they_are_told(
    offsets: tuple[int, int],
) -> None:
    setting = Setting()
    young = new_origin(NOW)
    for offset in offsets:
        setting.newcomers.add_key(offset, {young: (1, offset)})
    assert setting.newcomers.resume_marks == {young: (1, 7)}
    assert setting.newcomers.start_of(young, THERE) == (1, 7)


def test_where_it_goes_on_may_be_known_later_and_it_has_waited_before() -> None:
    setting = Setting()
    young = new_origin(NOW)
    setting.newcomers.add_key("one", {})
    assert setting.newcomers.start_of(young, THERE) == FIRST
    setting.now += 10 * MAX_CLOCK_SKEW
    setting.newcomers.add_key("one", {young: (1, 7)})
    setting.newcomers.add_key("one")
    assert setting.newcomers.start_of(young, THERE) == (1, 7)
    assert setting.begins() == FIRST


def test_who_does_not_speak_for_himself_has_to_be_younger_whatever_clocks_do() -> None:
    setting = Setting()
    assert setting.newcomers.start_of_dead(new_origin(NOW)) is None
    setting.newcomers.add_key("one")
    assert setting.newcomers.start_of_dead(new_origin(NOW)) == FIRST
    assert setting.newcomers.start_of_dead(new_origin(NOW - 1000)) is None
    old = new_origin(NOW - 10 * MAX_CLOCK_SKEW)
    setting.newcomers.add_key("two", {old: THERE})
    assert setting.newcomers.start_of_dead(old) == THERE
