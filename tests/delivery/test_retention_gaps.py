from __future__ import annotations

from broker.delivery.gaps import find_retention_gaps


def test_a_gap_lies_between_the_client_and_the_start_of_the_log() -> None:
    (gap,) = find_retention_gaps(
        3, {"a": (1, 5), "b": (1, 9)}, {"a": (1, 8), "b": (1, 9), "c": (1, 4)}
    )
    assert (gap.number, gap.origin, gap.first, gap.last) == (3, "a", (1, 6), (1, 8))
    assert (gap.count, gap.reason) == (3, "retention")


def test_an_epoch_without_events_has_no_gap() -> None:
    """Its gap would be recovered repeatedly."""
    assert find_retention_gaps(1, {"a": (1, 5)}, {"a": (2, 5)}) == []
