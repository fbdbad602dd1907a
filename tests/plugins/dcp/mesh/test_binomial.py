from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest

from plugins.dcp.mesh.binomial import (
    lower_share,
    probability_of_at_least,
    probability_of_at_most,
    upper_share,
)


def exact_at_least(count: int, share: Fraction, least: int) -> Fraction:
    terms = (comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(count + 1))
    return sum(list(terms)[max(0, least) :], Fraction())


@pytest.mark.parametrize("share", [Fraction(1, 1000), Fraction(1, 3), Fraction(9, 10), Fraction(1)])
@pytest.mark.parametrize("count", [1, 30])
def test_tails_agree_with_exact_sums(count: int, share: Fraction) -> None:
    for successes in range(count + 1):
        at_least = exact_at_least(count, share, successes)
        at_most = 1 - exact_at_least(count, share, successes + 1)
        found = probability_of_at_least(count, float(share), successes)
        assert found == pytest.approx(float(at_least), rel=1e-9, abs=1e-15)
        found = probability_of_at_most(count, float(share), successes)
        assert found == pytest.approx(float(at_most), rel=1e-9, abs=1e-15)


def test_small_tails_of_many_trials_are_not_rounded_away() -> None:
    # Poisson with the mean 0.01: P(X >= 3) is 1.65e-7.
    assert probability_of_at_least(10**6, 1e-8, 3) == pytest.approx(1.654e-7, rel=1e-3)


@pytest.mark.parametrize(("count", "successes"), [(10, 0), (10, 3), (1_000, 1_000), (10**6, 123)])
@pytest.mark.parametrize("confidence", [0.95, 0.9999])
def test_a_bound_is_the_share_at_which_the_count_becomes_unlikely(
    count: int, successes: int, confidence: float
) -> None:
    low, high = (bound(count, successes, confidence) for bound in (lower_share, upper_share))
    assert low <= successes / count <= high
    tail = pytest.approx(1 - confidence, rel=1e-6)
    assert low == 0 or probability_of_at_least(count, low, successes) == tail
    assert high == 1 or probability_of_at_most(count, high, successes) == tail


def test_the_rule_of_three() -> None:
    assert upper_share(3_000_000, 0, 0.95) == pytest.approx(1e-6, rel=0.01)
    assert upper_share(0, 0, 0.95) == 1.0
    assert lower_share(0, 0, 0.95) == 0.0
