"""The checker of transcripts finds each wrong entry."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from broker.event.order_entry import OrderEntry
from broker.testing.transcripts import SiteChecker, compare_sites


def entry(number: int, stamp: int | None = None, *, site: str = "a", **fields: Any) -> OrderEntry:
    stamp = number * 10 if stamp is None else stamp
    return OrderEntry("ops", site, 1, number, stamp, "logical", **fields)


def late(number: int, stamp: int, after: int) -> OrderEntry:
    return entry(number, stamp, site="b", is_late=True, after=("a", 1, after))


GOOD = [entry(1), entry(3), late(1, 20, 3), entry(4)]


def violations(entries: list[OrderEntry], *, lost_commits: bool = False) -> list[str]:
    return list(SiteChecker(lost_commits).check(entries))


def test_a_right_sequence_has_no_violation() -> None:
    assert violations(GOOD) == []


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([entry(1), entry(1)], "came twice"),
        ([entry(2), entry(1)], "of its site"),
        ([entry(1), entry(3), entry(1, 20, site="b")], "is late behind"),
        ([entry(1), entry(2, is_late=True, after=("a", 1, 1))], "is not late"),
        ([entry(1), entry(3), late(1, 20, 1)], "is not before"),
        (
            [entry(1), entry(3), attrs.evolve(late(1, 20, 3), before=("a", 1, 3))],
            "is not behind",
        ),
        ([entry(1), entry(3), attrs.evolve(late(1, 20, 3), after=None)], "names no event"),
    ],
)
def test_a_wrong_entry_is_found(entries: list[OrderEntry], text: str) -> None:
    assert any(text in each for each in violations(entries))


def test_after_lost_commits_an_event_may_count_as_late() -> None:
    entries = [entry(1), entry(2, is_late=True, after=("a", 1, 9))]
    assert violations(entries) and not violations(entries, lost_commits=True)


def test_transcripts_of_two_sites_are_compared() -> None:
    def check(entries: list[OrderEntry]) -> SiteChecker:
        checker = SiteChecker()
        assert list(checker.check(entries)) == []
        return checker

    one = check(GOOD)
    assert list(compare_sites({"x": one, "y": check(GOOD[:1] + GOOD[1:])})) == []
    assert "only one has" in next(compare_sites({"x": one, "y": check(GOOD[:-1])}))
    moved = {"x": one, "y": check([*GOOD[:-1], entry(4, 45)])}
    assert "at y" in next(compare_sites(moved))
