from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.log.deduplication import Deduplication, Freshness, Publisher, SequenceWindow


class AllNumbers:
    """The oracle: a window that stores each number."""

    def __init__(self, width: int) -> None:
        self._width, self._seen, self._floor = width, set[int](), 1

    def record(self, number: int) -> Freshness:
        if number < self._floor:
            return Freshness.OUTSIDE
        if number in self._seen:
            return Freshness.DUPLICATE
        self._seen.add(number)
        missing = sorted({*range(self._floor, max(self._seen))} - self._seen)
        ends = [n for n in missing if n + 1 in self._seen]
        if len(ends) > self._width:
            self._floor = ends[-self._width - 1] + 1
        return Freshness.NEW


# Few numbers have neighbours.
@given(st.lists(st.integers(1, 12), max_size=40), st.integers(1, 4))
def test_a_window_answers_as_a_set_of_all_numbers_would(numbers: list[int], width: int) -> None:
    window, model = SequenceWindow(width), AllNumbers(width)
    for number in numbers:
        assert window.record(number) is model.record(number)
        assert len(window.missing) <= width
        window = SequenceWindow.decode(window.encode(), width)


def test_all_that_was_sent_in_order_is_known_however_much_it_is() -> None:
    window = SequenceWindow(4)
    for number in range(1, 10_001):
        assert window.record(number) is Freshness.NEW
    assert all(window.record(number) is Freshness.DUPLICATE for number in range(1, 10_001))
    assert len(window.encode()) == 24


def test_a_refused_number_is_new_again() -> None:
    window = SequenceWindow(4)
    for number in (1, 2, 5, 6):
        window.record(number)
    assert window.record(3) is Freshness.NEW
    assert window.record(3) is Freshness.DUPLICATE
    assert window.record(4) is Freshness.NEW
    assert window.missing == []


def test_too_many_refused_numbers_move_the_floor_above_the_oldest() -> None:
    window = SequenceWindow(2)
    for number in (1, 3, 5, 7):
        window.record(number)
    assert [window.record(n) for n in (2, 4, 6)] == [
        Freshness.OUTSIDE,
        Freshness.NEW,
        Freshness.NEW,
    ]


@given(st.lists(st.integers(1, 2**63 - 1), min_size=1, max_size=30))
def test_a_window_survives_being_stored(numbers: list[int]) -> None:
    window = SequenceWindow(128)
    for number in numbers:
        window.record(number)
    assert SequenceWindow.decode(window.encode(), 128) == window


def test_a_jump_of_nine_quintillion_costs_no_memory() -> None:
    window = SequenceWindow(1024)
    window.record(1)
    assert window.record(2**63 - 1) is Freshness.NEW
    assert len(window.encode()) == 40


def test_publishers_beyond_the_cache_are_loaded_from_the_log() -> None:
    stored: dict[Publisher, bytes] = {}
    marks = Deduplication(stored.get, width=64, cached=2)
    for client in ("a", "b", "c"):
        assert marks.record((client, 1), 1, 0) is Freshness.NEW
        stored.update(marks.take_changed())
    for client in ("a", "b", "c"):
        assert marks.record((client, 1), 1, 0) is Freshness.DUPLICATE


def test_a_window_being_committed_is_not_evicted() -> None:
    stored: dict[Publisher, bytes] = {}
    marks = Deduplication(stored.get, width=64, cached=1)
    for client in ("a", "b"):
        marks.record((client, 1), 1, 0)
    rows = marks.take_changed()
    assert marks.record(("a", 1), 1, 0) is Freshness.DUPLICATE
    stored.update(rows)
    marks.record(("c", 1), 1, 0)
    marks.take_changed()
    assert marks.record(("a", 1), 1, 0) is Freshness.DUPLICATE


def test_records_of_a_failed_commit_are_void() -> None:
    marks = Deduplication(lambda _: None, width=64)
    marks.record(("a", 1), 1, 0)
    marks.clear()
    assert marks.record(("a", 1), 1, 0) is Freshness.NEW


def test_a_run_of_new_numbers_is_recorded_as_each_of_them_would_be() -> None:
    stored: dict[Publisher, bytes] = {}
    marks = Deduplication(stored.get, width=64)
    publisher = ("a", 1)
    assert marks.next_number(publisher) == 1
    marks.record_run(publisher, 3, 7)
    assert marks.next_number(publisher) == 4
    marks.record(publisher, 6, 8)
    assert marks.next_number(publisher) == 7
    stored.update(marks.take_changed())
    assert marks.take_changed() == []
    window = SequenceWindow.decode(stored[publisher], 64)
    assert (window.high, window.missing, window.used) == (6, [(4, 5)], 8)
    assert Deduplication(stored.get, width=64).next_number(publisher) == 7


def test_after_a_failed_commit_nothing_is_left_to_be_stored() -> None:
    marks = Deduplication(lambda _: None, width=64)
    marks.record(("a", 1), 1, 0)
    marks.clear()
    assert marks.take_changed() == [] and marks.next_number(("a", 1)) == 1


def test_the_cache_keeps_those_that_changed_last_up_to_its_bound() -> None:
    stored: dict[Publisher, bytes] = {}
    loaded: list[str] = []

    def load(publisher: Publisher) -> bytes | None:
        loaded.append(publisher[0])
        return stored.get(publisher)

    marks = Deduplication(load, width=64, cached=2)
    for number, client in enumerate("abacab", 1):
        marks.record((client, 1), number, 0)
        stored.update(marks.take_changed())
    # `c` has evicted `b`, which was silent for longer than `a`.
    assert loaded == ["a", "b", "c", "b"]


def test_another_incarnation_counts_anew() -> None:
    marks = Deduplication(lambda _: None, width=64)
    marks.record(("a", 1), 1, 0)
    assert marks.record(("a", 2), 1, 0) is Freshness.NEW


@given(numbers=st.lists(st.integers(1, 40), max_size=40), asked=st.integers(1, 45))
def test_a_check_equals_the_result_of_recording(numbers: list[int], asked: int) -> None:
    deduplication = Deduplication(lambda _: None, 3)
    for number in numbers:
        deduplication.record(("c", 1), number, 0)
    before = [encoded for _, encoded in deduplication.take_changed()]
    known = deduplication.check(("c", 1), asked)
    assert deduplication.take_changed() == []
    assert known is deduplication.record(("c", 1), asked, 0)
    stored = Deduplication(lambda _: before[0] if before else None, 3)
    assert stored.check(("c", 1), asked) is known
