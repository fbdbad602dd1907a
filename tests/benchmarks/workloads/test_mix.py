from __future__ import annotations

import random

import pytest

from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.workloads.mix import HARDER, STANDARD, Mix, distinct_queries

KINDS = ("equality", "prefix", "span", "box", "correlated", "undecidable")


def numbered(limit: int) -> dict[str, object]:
    def draw(kind: str):  # type: ignore[no-untyped-def]
        return lambda chance: f"{kind} {chance.randrange(limit)}"

    return {kind: draw(kind) for kind in KINDS}


@pytest.mark.parametrize("mix", [STANDARD, HARDER])
@pytest.mark.parametrize("count", [1_000, 10_000, 100_000])
def test_the_shares_of_a_mix_add_up_to_all_queries(mix: Mix, count: int) -> None:
    counts = mix.counts(count)
    assert tuple(counts) == KINDS
    assert sum(counts.values()) == count
    assert all(abs(found - count * getattr(mix, kind)) <= 3 for kind, found in counts.items())


def test_one_query_in_a_hundred_is_undecidable_and_one_in_ten_of_the_harder_mix() -> None:
    assert STANDARD.counts(10_000)["undecidable"] == 100
    assert HARDER.counts(10_000)["undecidable"] == 1_000


def test_queries_are_distinct_and_the_same_for_a_seed() -> None:
    first = distinct_queries(2_000, STANDARD, numbered(5_000), 1)  # type: ignore[arg-type]
    again = distinct_queries(2_000, STANDARD, numbered(5_000), 1)  # type: ignore[arg-type]
    other = distinct_queries(2_000, STANDARD, numbered(5_000), 2)  # type: ignore[arg-type]
    assert len({text for _, text in first}) == 2_000
    assert first == again
    assert first != other
    # In random order, so any end is a fair sample.
    assert {kind for kind, _ in first[-200:]} >= {"equality", "prefix", "box", "correlated"}


def test_a_kind_that_is_exhausted_says_so() -> None:
    with pytest.raises(BenchmarkFailed, match="no more than 3 queries of the kind"):
        distinct_queries(1_000, STANDARD, numbered(3), 1)  # type: ignore[arg-type]


def test_draws_come_of_the_seed_alone() -> None:
    random.seed(7)
    first = distinct_queries(100, STANDARD, numbered(5_000), 1)  # type: ignore[arg-type]
    random.seed(8)
    assert distinct_queries(100, STANDARD, numbered(5_000), 1) == first  # type: ignore[arg-type]
