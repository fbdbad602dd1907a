from __future__ import annotations

from broker.event.merging.held_event import MissingNumbers, ReleasedEvent
from tests.event.merging.schedules import Run, event, linked, run


def alerts(merge: Run, now: float, *numbers: int, bundle: str = "b") -> list[int]:
    """Bundle numbers identify the events."""
    linkage = [linked(None, "bundle", bundles=[(bundle, number)]) for number in numbers]
    made = [
        event(number, 0, "alerts", f"c{number}", each)
        for number, each in zip(numbers, linkage, strict=True)
    ]
    return merge.receive(now, *made)


def test_a_bundle_comes_by_its_numbers() -> None:
    merge = run()
    assert alerts(merge, 0.0, 2) == []
    assert alerts(merge, 0.1, 3) == []
    assert alerts(merge, 0.2, 1) == [1, 2, 3]
    assert alerts(merge, 0.3, 4) == [4]


def test_a_missing_number_is_waited_for_and_reported() -> None:
    merge = run(wait=1.0)
    alerts(merge, 0.0, 1)
    alerts(merge, 0.5, 5)
    alerts(merge, 0.6, 3)
    merge.until(1.4)
    assert merge.items == [1]
    merge.until(1.5)
    assert [output for _, output in merge.outputs[1:]] == [
        MissingNumbers("alerts", "b", 2, 2),
        ReleasedEvent(3),
        MissingNumbers("alerts", "b", 4, 4),
        ReleasedEvent(5),
    ]
    assert merge.merger.counts.missing == 2
    assert alerts(merge, 2.0, 2) == [2]
    assert merge.late == {2}


def test_events_behind_a_missing_number_are_released_with_it() -> None:
    merge = run(wait=1.0)
    alerts(merge, 0.0, 1)
    alerts(merge, 0.1, 5)
    alerts(merge, 0.9, 6, 8)
    merge.until(1.1)
    assert merge.items == [1, 5, 6]


def test_an_overdue_event_is_released_after_all_before_it() -> None:
    merge = run(wait=1.0)
    for item, numbers in enumerate(([("a", 3)], [("a", 2), ("b", 2)], [("b", 1), ("c", 5)])):
        linkage = linked(None, "bundle", bundles=numbers)
        merge.receive(item / 10, event(item, 0, "alerts", f"c{item}", linkage))
    merge.until(1.0)
    assert (merge.items, merge.late) == ([2, 1, 0], set())


def test_a_subscriber_that_starts_within_a_bundle_misses_nothing() -> None:
    merge = run(wait=1.0)
    assert alerts(merge, 0.0, 7) == []
    merge.until(1.0)
    assert (merge.items, merge.missing) == ([7], [])


def test_the_constraint_of_a_bundle_bounds_the_wait() -> None:
    merge = run(wait=10.0)
    for item, number in enumerate((1, 3)):
        linkage = linked("within 200ms", "bundle", bundles=[("b", number)])
        merge.receive(0.0, event(item, 0, "alerts", "c", linkage))
    merge.until(5.0)
    assert merge.given_at == {0: 0.0, 1: 0.2}


def test_events_that_become_ready_together_go_in_the_declared_order() -> None:
    merge = run(wait=1.0)
    for item, bundle in enumerate("zyx"):
        linkage = linked(None, "bundle", "#x", "#y", "#z", bundles=[("all", 1), (bundle, 2)])
        merge.receive(0.0, event(item, item, "alerts", f"c{item}", linkage))
    freeing = linked(None, "bundle", bundles=[("x", 1), ("y", 1), ("z", 1)])
    assert merge.receive(0.5, event(9, 0, "alerts", "c9", freeing)) == [9, 2, 1, 0]


def test_an_event_in_several_bundles_has_its_turn_in_each() -> None:
    merge = run(wait=1.0)
    both = linked(None, "bundle", bundles=[("a", 2), ("b", 2)])
    merge.receive(0.0, event(0, 0, "alerts", "c", both))
    assert alerts(merge, 0.1, 1, bundle="a") == [1]
    assert alerts(merge, 0.2, 1, bundle="b") == [1, 0]


def test_bundles_that_contradict_each_other_end_by_time() -> None:
    merge = run(wait=1.0)
    for item, numbers in enumerate(([("a", 2), ("b", 1)], [("a", 1), ("b", 2)])):
        linkage = linked(None, "bundle", bundles=numbers)
        merge.receive(0.0, event(item, 5 - item, "alerts", f"c{item}", linkage))
    merge.until(1.0)
    assert sorted(merge.items) == [0, 1]
    assert len(merge.late) == 1


def test_a_bundle_is_of_its_stream() -> None:
    merge = run()
    for stream in ("one", "two"):
        linkage = linked(None, "bundle", bundles=[("b", 1)])
        assert merge.receive(0.0, event(0, 0, stream, "c", linkage)) == [0]
