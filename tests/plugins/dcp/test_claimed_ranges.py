"""The ranges that one parent has stated."""

from __future__ import annotations

from random import Random

import pytest

from plugins.dcp.claimed_ranges import ClaimedRanges


def test_adjacent_ranges_are_one() -> None:
    claims = ClaimedRanges()
    for previous, upto in ((5, 7), (9, 12), (7, 9)):
        claims.add(previous, upto, 0)
    assert claims.end_after(4) is None and claims.end_after(12) is None
    assert claims.end_after(5) == claims.end_after(11) == 12
    assert [an for an in range(20) if claims.has_claimed(an)] == [*range(6, 13)]


@pytest.mark.parametrize("seed", range(20))
def test_each_place_in_a_range_is_claimed(seed: int) -> None:
    random = Random(seed)
    claims, places = ClaimedRanges(), set[int]()
    for _ in range(30):
        previous = random.randrange(100)
        upto = previous + random.randint(1, 10)
        claims.add(previous, upto, 0)
        places |= {*range(previous + 1, upto + 1)}
        assert {an for an in range(120) if claims.has_claimed(an)} == places


def test_the_oldest_are_forgotten_behind_the_present_place_else_the_furthest() -> None:
    claims = ClaimedRanges()
    for number in range(257):
        claims.add(10 * number, 10 * number + 1, 5)
    assert not claims.has_claimed(1) and claims.has_claimed(2_561)
    claims.add(10_000, 10_001, 5)
    assert claims.has_claimed(11) and not claims.has_claimed(10_001)
