"""The soak expects no gap for a lost event at a place that no disk recorded."""

from __future__ import annotations

from broker.event.place import Place
from broker.log.history import History
from tests.soak.recorded_places import RecordedPlaces


def test_a_later_place_records_those_before_it() -> None:
    recorded = RecordedPlaces()
    recorded.add("o", [(1, 5), (3, 9)])
    assert Place("o", 1, 5) in recorded
    assert Place("o", 2, 8) in recorded
    assert Place("o", 1, 6) in recorded
    assert Place("o", 3, 10) not in recorded
    assert Place("p", 1, 1) not in recorded


def test_a_place_on_another_branch_does_not_record_it() -> None:
    """The log was set back to place 5 of epoch 1, and lost 6 to 8."""
    recorded = RecordedPlaces()
    recorded.add("o", [(1, 7), (3, 20), (4, 30)])
    recorded.set_histories("o", [History(1, 11, 0, (0, 0)), History(3, 13, 1, (1, 5))])
    assert Place("o", 1, 5) in recorded
    assert Place("o", 1, 7) in recorded
    assert Place("o", 1, 8) not in recorded
    assert Place("o", 2, 8) not in recorded
    assert Place("o", 3, 20) in recorded
    recorded.add("o", [(2, 8)])
    assert Place("o", 2, 8) in recorded
