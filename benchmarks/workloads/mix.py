"""Kinds of queries of a workload, their shares, and their selectivity."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

import attrs

from benchmarks.harness.failure import BenchmarkFailed

#: Repetitions are possible.
Draw: TypeAlias = Callable[[random.Random], str]

#: Draws without a new query, after which a kind is exhausted.
_PATIENCE: Final = 2_000


@attrs.frozen
class Mix:
    """Shares of the kinds of queries, with a sum of one.

    `window` is the approximate share of events that a query with bounds or a prefix matches.
    """

    name: str
    equality: float
    prefix: float
    span: float
    """One dimension with two bounds."""
    box: float
    """Two dimensions with two bounds each."""
    correlated: float
    """Several conditions on the same element."""
    undecidable: float
    """Not decidable by an index, with another condition that `window` of the events meet."""
    window: float

    def counts(self, queries: int) -> dict[str, int]:
        """Return counts by kind; the rounding rest are equalities."""
        kinds = ("prefix", "span", "box", "correlated", "undecidable")
        found = {kind: round(queries * getattr(self, kind)) for kind in kinds}
        return {"equality": queries - sum(found.values()), **found}


#: Narrow queries, one in a hundred of them beyond an index.
STANDARD: Final = Mix(
    "standard",
    equality=0.30,
    prefix=0.15,
    span=0.05,
    box=0.29,
    correlated=0.20,
    undecidable=0.01,
    window=2e-4,
)
#: A query matches one in a hundred events; one in ten is beyond an index.
HARDER: Final = Mix(
    "harder",
    equality=0.10,
    prefix=0.10,
    span=0.20,
    box=0.30,
    correlated=0.20,
    undecidable=0.10,
    window=0.0125,
)


def distinct_queries(
    count: int, mix: Mix, kinds: Mapping[str, Draw], seed: int
) -> list[tuple[str, str]]:
    """Return (kind, text) in random order, the same for a seed.

    Raises `BenchmarkFailed` when a kind is exhausted.
    """
    chance = random.Random(f"{mix.name} {seed}")
    seen: set[str] = set()
    found = [
        (kind, text)
        for kind, number_of_kind in mix.counts(count).items()
        for text in _draw_distinct(kind, kinds[kind], number_of_kind, seen, chance)
    ]
    chance.shuffle(found)
    return found


def _draw_distinct(
    kind: str, draw: Draw, number_of_kind: int, seen: set[str], chance: random.Random
) -> Iterator[str]:
    for number in range(number_of_kind):
        for _ in range(_PATIENCE):
            text = draw(chance)
            if text not in seen:
                break
        else:
            raise BenchmarkFailed(f"there are no more than {number} queries of the kind {kind}")
        seen.add(text)
        yield text
