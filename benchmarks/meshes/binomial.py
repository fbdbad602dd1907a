"""Bounds of a binomial count."""

from __future__ import annotations

from plugins.dcp.mesh.binomial import binomial_probability


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
