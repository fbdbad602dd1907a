"""De-duplication marks (T19)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.store.deduplication import Deduplication, Freshness, Publisher, SequenceWindow


@given(st.lists(st.integers(1, 200), max_size=300), st.integers(1, 64))
def test_a_window_answers_as_a_set_of_all_numbers_would(numbers: list[int], width: int) -> None:
    window = SequenceWindow(width)
    seen: set[int] = set()
    for number in numbers:
        answer = window.record(number)
        if number <= max(seen, default=0) - width:
            assert answer is Freshness.OUTSIDE
        else:
            assert answer is (Freshness.DUPLICATE if number in seen else Freshness.NEW)
            seen.add(number)


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
    assert window.bits == 1


def test_publishers_beyond_the_cache_are_read_back_from_what_was_stored() -> None:
    stored: dict[Publisher, bytes] = {}
    marks = Deduplication(stored.get, width=64, cached=2)
    for client in ("a", "b", "c"):
        assert marks.record((client, 1), 1, 0) is Freshness.NEW
        stored.update(marks.changed())
    for client in ("a", "b", "c"):
        assert marks.record((client, 1), 1, 0) is Freshness.DUPLICATE


def test_what_was_recorded_for_a_failed_commit_never_happened() -> None:
    marks = Deduplication(lambda _: None, width=64)
    marks.record(("a", 1), 1, 0)
    marks.forget()
    assert marks.record(("a", 1), 1, 0) is Freshness.NEW


def test_another_incarnation_counts_anew() -> None:
    marks = Deduplication(lambda _: None, width=64)
    marks.record(("a", 1), 1, 0)
    assert marks.record(("a", 2), 1, 0) is Freshness.NEW
