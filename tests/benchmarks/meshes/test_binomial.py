from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest

from benchmarks.meshes.binomial import binomial_bounds
from plugins.dcp.mesh.binomial import binomial_probability


def exact_tail(count: int, share: Fraction, most: int) -> Fraction:
    """Return P(X <= most)."""
    numbers = range(most + 1)
    return sum(
        (comb(count, k) * share**k * (1 - share) ** (count - k) for k in numbers), Fraction()
    )


@pytest.mark.parametrize("share", [Fraction(1, 20), Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("count", [1, 10, 200])
@pytest.mark.parametrize("confidence", [0.9, 0.9999])
def test_each_tail_outside_the_bounds_is_just_small_enough(
    count: int, share: Fraction, confidence: float
) -> None:
    least, most = binomial_bounds(count, float(share), confidence)
    tail = (1 - Fraction(confidence)) / 2
    assert 0 <= least <= most <= count
    assert exact_tail(count, share, least - 1) <= tail < exact_tail(count, share, least)
    assert 1 - exact_tail(count, share, most) <= tail < 1 - exact_tail(count, share, most - 1)


def test_nothing_or_everything_is_certain() -> None:
    assert binomial_bounds(100, 0.0, 0.9999) == (0, 0)
    assert binomial_bounds(100, 1.0, 0.9999) == (100, 100)
    assert binomial_probability(3, 0.0, 0) == binomial_probability(3, 1.0, 3) == 1.0
    assert binomial_probability(3, 0.0, 1) == binomial_probability(3, 1.0, 2) == 0.0


def test_rare_events_of_many_trials() -> None:
    # As a Poisson count with the mean 0.125: P(X > 3) is 9.2e-6, P(X > 2) is 3e-4.
    assert binomial_bounds(20_000, 0.05**4, 0.9999) == (0, 3)
    assert binomial_probability(20_000, 0.5, 20_000) == 0.0
