"""Which kinds of queries a workload has, in which shares, and how narrow they are."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

import attrs

from benchmarks.harness.failure import BenchmarkFailed

#: Draws the next query of one kind; it may draw one that it has drawn before.
Draw: TypeAlias = Callable[[random.Random], str]

#: Draws in a row that bring nothing new, after which a kind of query is exhausted.
_PATIENCE: Final = 2_000


@attrs.frozen
class Mix:
    """Shares of the kinds of queries, which add up to one.

    `window` is the share of events that one query with bounds or a prefix matches, about: each
    kind comes as near to it as its values allow. So the matches that an event has grow with the
    number of queries; a workload says how many there are.
    """

    name: str
    equality: float
    prefix: float
    span: float
    """One dimension with two bounds."""
    box: float
    """Two dimensions with two bounds each."""
    correlated: float
    """Several conditions on one and the same element."""
    undecidable: float
    """Not to be decided by an index, beside a condition that passes on `window` of the events."""
    window: float

    def counts(self, queries: int) -> dict[str, int]:
        """How many of so many queries are of each kind; what rounding leaves are equalities."""
        kinds = ("prefix", "span", "box", "correlated", "undecidable")
        found = {kind: round(queries * getattr(self, kind)) for kind in kinds}
        return {"equality": queries - sum(found.values()), **found}


#: What subscribers ask for: narrow things, one in a hundred of which is beyond an index.
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
#: Wide things: a query matches one in a hundred events, and one query in ten is beyond an index.
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
    """So many queries as (kind, text), no text twice, in random order; the same for a seed.

    Raises `BenchmarkFailed` when a kind has not so many.
    """
    chance = random.Random(f"{mix.name} {seed}")
    seen: set[str] = set()
    found = [
        (kind, text)
        for kind, wanted in mix.counts(count).items()
        for text in _new_ones(kind, kinds[kind], wanted, seen, chance)
    ]
    chance.shuffle(found)
    return found


def _new_ones(
    kind: str, draw: Draw, wanted: int, seen: set[str], chance: random.Random
) -> Iterator[str]:
    for number in range(wanted):
        for _ in range(_PATIENCE):
            text = draw(chance)
            if text not in seen:
                break
        else:
            raise BenchmarkFailed(f"there are no more than {number} queries of the kind {kind}")
        seen.add(text)
        yield text
