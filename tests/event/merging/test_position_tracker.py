from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.event.merging.position_tracker import PositionTracker
from broker.event.place import Mark, Place, Position


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans(), st.integers(0, 30)), max_size=40))
def test_the_position_is_the_last_one_without_unprocessed_events(
    steps: list[tuple[str, bool, int]],
) -> None:
    ledger = PositionTracker()
    marks: dict[str, list[tuple[Mark, bool]]] = {"a": [], "b": []}
    waiting: list[Place] = []
    last = Position()
    for number, (origin, is_event, which) in enumerate(steps, 1):
        mark = (1, number)
        if is_event:
            ledger.record_arrival(Place(origin, *mark))
            waiting.append(Place(origin, *mark))
        else:
            ledger.record_progress(Position({origin: mark}))
        marks[origin].append((mark, is_event))
        if which < len(waiting):
            ledger.record_processed(waiting.pop(which))
        for name, came in marks.items():
            open_marks = [place.mark for place in waiting if place.origin == name]
            safe = [mark for mark, _ in came if not open_marks or mark < min(open_marks)]
            assert ledger.position.marks.get(name) == (max(safe) if safe else None)
        assert last.merged(ledger.position) == ledger.position
        last = ledger.position


def test_a_place_that_never_came_changes_nothing() -> None:
    ledger = PositionTracker()
    ledger.record_processed(Place("n", 1, 5))
    ledger.record_arrival(Place("n", 1, 4))
    ledger.record_processed(Place("n", 1, 5))
    assert ledger.position == Position()


def test_progress_that_lags_behind_moves_nothing_back() -> None:
    ledger = PositionTracker()
    ledger.record_arrival(Place("n", 1, 7))
    ledger.record_processed(Place("n", 1, 7))
    ledger.record_progress(Position({"n": (1, 5)}))
    assert ledger.position == Position({"n": (1, 7)})
