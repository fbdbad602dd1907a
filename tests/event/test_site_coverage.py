"""Messages that a site has, by sites and numbers."""

from __future__ import annotations

from random import Random

import pytest

from broker.event.site_coverage import (
    MOST_INCARNATIONS,
    MOST_RANGES,
    MOST_SITES,
    Arrival,
    CoverageTable,
    CoveredMessages,
    Range,
)
from tests.seeds import seeds


def row(first: int, last: int, *missing: Range, site: str = "a", of: int = 1) -> CoveredMessages:
    return CoveredMessages(site, of, first, last, missing)


@pytest.mark.parametrize(
    ("known", "later", "joined"),
    [
        (row(1, 5), row(6, 9), row(1, 9)),
        (row(1, 5), row(1, 9, (3, 3)), row(1, 9, (3, 3))),
        # A missing message has come after all.
        (row(1, 9, (3, 5)), row(4, 4), row(1, 9, (3, 3), (5, 5))),
        (row(1, 9, (8, 9)), row(10, 10, (10, 10)), row(1, 10, (8, 10))),
        # Between them nothing is known.
        (row(1, 5), row(7, 9), row(7, 9)),
        (row(7, 9), row(1, 5), row(7, 9)),
        (row(7, 9), row(6, 6), row(6, 9)),
    ],
)
def test_later_news_are_joined_with_what_is_known(
    known: CoveredMessages, later: CoveredMessages, joined: CoveredMessages
) -> None:
    assert known.joined(later) == joined


@pytest.mark.parametrize("seed", seeds(50, 1_000))
def test_each_number_is_what_was_told_last_of_it(seed: int) -> None:
    random = Random(seed)
    known, states = row(50, 50), {50: Arrival.DELIVERED}
    for _ in range(20):
        first = random.randint(known.first - 3, known.last + 1)
        last = max(known.first - 1, first + random.randint(0, 6))
        state = random.choice((Arrival.DELIVERED, Arrival.MISSING))
        missing = [(first, last)] if state is Arrival.MISSING else []
        known = known.joined(row(first, last, *missing))
        states |= dict.fromkeys(range(first, last + 1), state)
    assert known.arrival_of(max(states) + 1) is Arrival.EXPECTED
    assert known.arrival_of(known.first - 1) is Arrival.UNKNOWN
    for number, state in states.items():
        assert known.arrival_of(number) is state or number < known.first, (seed, number)
    assert len(known.missing) <= MOST_RANGES


def test_beyond_the_bound_of_ranges_the_oldest_messages_are_not_known_any_more() -> None:
    known = row(1, 1)
    for number in range(2, 2 * MOST_RANGES + 4):
        known = known.joined(row(number, number, *[(number, number)] * (number % 2)))
    assert len(known.missing) == MOST_RANGES
    assert known.arrival_of(3) is Arrival.UNKNOWN
    assert known.first == 4 and known.arrival_of(5) is Arrival.MISSING


@pytest.mark.parametrize(
    ("first", "last", "missing"),
    [
        (5, 4, ()),
        (1, 9, ((5, 4),)),
        (1, 9, ((6, 7), (3, 3))),
        (1, 9, ((9, 10),)),
        (2, 9, ((1, 2),)),
    ],
)
def test_ranges_in_another_order_are_refused(
    first: int, last: int, missing: tuple[Range, ...]
) -> None:
    with pytest.raises(ValueError, match="can not lack"):
        CoveredMessages("a", 1, first, last, missing)


def test_the_end_of_an_earlier_incarnation_is_missing_when_a_later_one_has_begun() -> None:
    table = CoverageTable()
    assert table.arrival_of("a", 1, 5) is Arrival.EXPECTED
    table.add(row(1, 4))
    assert table.arrival_of("a", 1, 5) is Arrival.EXPECTED
    table.add(row(1, 1, of=2))
    assert table.arrival_of("a", 1, 5) is Arrival.MISSING
    assert table.arrival_of("a", 1, 4) is Arrival.DELIVERED
    assert table.arrival_of("a", 2, 2) is Arrival.EXPECTED
    # Its messages may have been delivered before what the site knows.
    assert table.arrival_of("a", 0, 5) is Arrival.UNKNOWN
    assert table.arrival_of("b", 1, 1) is Arrival.EXPECTED


def test_a_table_returns_what_is_new() -> None:
    table = CoverageTable()
    assert table.add(row(1, 4)) == row(1, 4)
    assert table.add(row(2, 4)) is None
    assert table.add(row(5, 6)) == row(1, 6) and table.rows == (row(1, 6),)
    table.remove("a", 1)
    table.remove("b", 1)
    assert not table.rows


def test_a_table_is_bounded() -> None:
    table = CoverageTable()
    for incarnation in range(1, MOST_INCARNATIONS + 3):
        table.add(row(1, 1, of=incarnation))
    assert table.add(row(1, 1, of=1)) is None
    assert table.find("a", 2) is None and table.find("a", 3) is not None
    for number in range(MOST_SITES + 5):
        table.add(row(1, 1, site=f"s{number}"))
    assert len({each.site for each in table.rows}) == MOST_SITES
    # Sites of the table still change.
    assert table.add(row(2, 2, site="s1")) == row(1, 2, site="s1")
