"""Bounds of a binomial count."""

from __future__ import annotations

from math import exp, lgamma, log, log1p


def binomial_bounds(count: int, share: float, confidence: float) -> tuple[int, int]:
    """Return the exact least and greatest number of successes that are not unlikely.

    Each of the tails outside has at most half of the probability `1 - confidence`.
    """
    tail = (1 - confidence) / 2
    return (
        _first_above(count, share, tail),
        count - _first_above(count, 1 - share, tail),
    )


def _first_above(count: int, share: float, tail: float) -> int:
    """Return the least number k with P(X <= k) > tail."""
    total = 0.0
    for successes in range(count + 1):
        total += binomial_probability(count, share, successes)
        if total > tail:
            return successes
    return count


def binomial_probability(count: int, share: float, successes: int) -> float:
    """Return the probability of a number of successes in `count` independent trials."""
    if share in (0.0, 1.0):
        return float(successes == round(count * share))
    failures = count - successes
    choices = lgamma(count + 1) - lgamma(successes + 1) - lgamma(failures + 1)
    return exp(choices + successes * log(share) + failures * log1p(-share))
