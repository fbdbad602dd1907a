from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.archive.layout import hour_of
from broker.archive.manifest_entry import ArchivedFile
from broker.archive.retention import DurableNeed, Retention, find_expired_hours
from broker.event.place import Position
from broker.event.stream import StreamPattern
from tests.archive.events import HOUR, MORNING


def file(hour: int, *, stream: str = "s", streams: bool = True) -> ArchivedFile:
    """Hour 1 has the places 10 to 19, hour 2 has 20 to 29, and so on."""
    arrival = MORNING + hour * HOUR
    return ArchivedFile(
        *(f"{stream}/{hour}", stream, hour_of(arrival), 10, 100, ""),
        spans={"aa": ((1, 10 * hour), (1, 10 * hour + 9))},
        arrivals=(arrival, arrival + 9),
        levels=(1,),
        streams=(stream,) if streams else None,
        types=(),
    )


def needed(pattern: str, offset: int) -> DurableNeed:
    return DurableNeed(StreamPattern.parse(pattern), Position({"aa": (1, offset)}))


NOW = MORNING + 10 * HOUR
FILES = [file(hour, stream=stream) for hour in range(1, 10) for stream in ("s", "t")]


def expired_paths(retention: Retention, *needs: DurableNeed) -> list[str]:
    return [each.path for each in find_expired_hours(FILES, retention, needs, NOW).files]


def test_nothing_expires_without_a_limit() -> None:
    assert expired_paths(Retention()) == []


def test_hours_expire_by_age() -> None:
    found = find_expired_hours(FILES, Retention(age_ms=8 * HOUR), (), NOW)
    assert {each.path for each in found.files} == {"s/1", "t/1"}
    assert found.forgotten_ranges == [("aa", (0, 0), (1, 19))]


def test_the_oldest_hours_expire_until_the_size_limit_holds() -> None:
    assert set(expired_paths(Retention(max_bytes=1400))) == {"s/1", "t/1", "s/2", "t/2"}


@pytest.mark.parametrize(("most", "hours"), [(180, 0), (179, 1), (160, 1), (159, 2), (1, 9)])
def test_the_oldest_hours_expire_until_the_event_limit_holds(most: int, hours: int) -> None:
    assert len(expired_paths(Retention(max_events=most))) == 2 * hours


def test_every_limit_applies() -> None:
    assert len(expired_paths(Retention(max_bytes=1700, max_events=150))) == 4
    assert len(expired_paths(Retention(max_bytes=1500, max_events=170))) == 4


def test_hours_from_the_first_needed_one_on_are_kept() -> None:
    bound = Retention(age_ms=HOUR)
    assert set(expired_paths(bound, needed("t", 35))) == {"s/1", "t/1", "s/2", "t/2"}
    found = find_expired_hours(FILES, bound, [needed("t", 35)], NOW)
    assert found.held_hour == "2026-11-20T10"


def test_hours_that_no_durable_subscription_needs_expire() -> None:
    bound = Retention(age_ms=8 * HOUR)
    assert set(expired_paths(bound, needed("t", 19), needed("other.>", 0))) == {"s/1", "t/1"}


def test_a_position_without_an_origin_needs_all_of_it() -> None:
    assert (
        expired_paths(Retention(age_ms=HOUR), DurableNeed(StreamPattern.parse(">"), Position()))
        == []
    )


def test_the_slowest_flow_of_an_origin_decides() -> None:
    fast, slow = needed(">", 99), needed(">", 2)
    marks = {**fast.position.marks, "aa/asdi.>": slow.position.marks["aa"]}
    both = DurableNeed(slow.pattern, Position(marks))
    limits = Retention(age_ms=HOUR)
    assert expired_paths(limits, both) == expired_paths(limits, slow)
    assert expired_paths(limits, both) != expired_paths(limits, fast)


def test_needed_hours_expire_at_the_hard_age() -> None:
    bound = Retention(age_ms=HOUR, hard_age_ms=7 * HOUR)
    assert set(expired_paths(bound, needed("t", 0))) == {"s/1", "t/1", "s/2", "t/2"}


def test_unnamed_streams_may_be_needed() -> None:
    [shared] = [file(1, stream="asdi.+", streams=False)]
    bound = Retention(age_ms=HOUR)
    assert find_expired_hours([shared], bound, [needed("asdi.*.tz", 0)], NOW).files == ()
    assert find_expired_hours([shared], bound, [needed("voevent", 0)], NOW).files == (shared,)


@given(st.integers(0, 12 * HOUR), st.integers(0, 2000), st.integers(0, 200), st.integers(0, 100))
def test_remaining_places_are_all_after_one_mark(
    age: int, size: int, events: int, offset: int
) -> None:
    found = find_expired_hours(FILES, Retention(age, size, events), [needed("t", offset)], NOW)
    kept = [each for each in FILES if each not in found.files]
    for _, _, mark in found.forgotten_ranges:
        assert all(each.spans["aa"][0] > mark for each in kept)
    if offset < 100:
        assert all(
            each.spans["aa"][1] <= (1, max(offset, 9) // 10 * 10 + 9) for each in found.files
        )
