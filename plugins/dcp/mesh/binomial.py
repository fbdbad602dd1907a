"""Probabilities of binomial counts, and bounds of the share that a count is of."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, lgamma, log, log1p
from typing import Final

#: Of the greatest term: smaller ones do not count.
_NEGLIGIBLE: Final = 1e-17
_HALVINGS: Final = 60


def binomial_probability(count: int, share: float, successes: int) -> float:
    """Return the probability of a number of successes in `count` independent trials."""
    if share in (0.0, 1.0):
        return float(successes == round(count * share))
    failures = count - successes
    choices = lgamma(count + 1) - lgamma(successes + 1) - lgamma(failures + 1)
    return exp(choices + successes * log(share) + failures * log1p(-share))


def probability_of_at_least(count: int, share: float, successes: int) -> float:
    """Return the probability of so many successes or more in `count` independent trials."""
    if successes <= 0:
        return 1.0
    if successes <= count * share:
        return 1.0 - _upper_tail(count, 1 - share, count - successes + 1)
    return _upper_tail(count, share, successes)


def probability_of_at_most(count: int, share: float, successes: int) -> float:
    """Return the probability of so many successes or fewer in `count` independent trials."""
    return probability_of_at_least(count, 1 - share, count - successes)


def _upper_tail(count: int, share: float, successes: int) -> float:
    """Return the probability of so many successes or more, which is behind the greatest term."""
    if successes > count:
        return 0.0
    term = binomial_probability(count, share, successes)
    total = 0.0
    while term > total * _NEGLIGIBLE:
        total += term
        # Zero behind the last one.
        term *= (count - successes) / (successes + 1) * (share / (1 - share) if share < 1 else 0.0)
        successes += 1
    return total


def lower_share(count: int, successes: int, confidence: float) -> float:
    """Return the one-sided lower bound of the share that gave so many successes (exact: Clopper
    and Pearson)."""
    if successes == 0:
        return 0.0
    return _first_share(
        lambda share: probability_of_at_least(count, share, successes) > 1 - confidence
    )


def upper_share(count: int, successes: int, confidence: float) -> float:
    """Return the one-sided upper bound of the share that gave so many successes; without trials
    1."""
    if successes >= count:
        return 1.0
    return _first_share(
        lambda share: probability_of_at_most(count, share, successes) < 1 - confidence
    )


def _first_share(is_reached: Callable[[float], bool]) -> float:
    """Return the share from which on a condition holds."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if is_reached(middle):
            high = middle
        else:
            low = middle
    return high
