"""What a subscription has not got any more."""

from __future__ import annotations

from broker.delivery.catch_up import find_retention_gaps


def test_it_lies_between_where_its_client_is_and_where_the_log_begins() -> None:
    (gap,) = find_retention_gaps(
        3, {"a": (1, 5), "b": (1, 9)}, {"a": (1, 8), "b": (1, 9), "c": (1, 4)}
    )
    assert (gap.number, gap.origin, gap.first, gap.last) == (3, "a", (1, 6), (1, 8))
    assert (gap.count, gap.reason) == (3, "retention")


def test_an_epoch_in_which_there_is_nothing_takes_nothing() -> None:
    """What could not be found behind it would be looked for again and again."""
    assert find_retention_gaps(1, {"a": (1, 5)}, {"a": (2, 5)}) == []
