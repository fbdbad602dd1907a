"""Comparison of two sites: verdicts, and the first difference by name."""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import pytest

from broker.order_certificates.certificate import Certificate
from broker.order_certificates.comparison import (
    Difference,
    Kind,
    Verdict,
    compare_certificates,
    find_difference,
)
from broker.order_certificates.leaf import Leaf, digest_of
from tests.order_certificates.leaves import make_leaf, random_leaves
from tests.seeds import seeds

OWN = Certificate("g", 256, "a", 1, 1, 5, 4, 1, bytes(32), 2, b"r" * 32, False)
OTHER = attrs.evolve(OWN, site="b", revision=7, count_in_time=2, root_in_time=b"t" * 32)


def test_equal_second_roots_are_equal_whatever_was_in_time() -> None:
    assert compare_certificates(OWN, OTHER) is Verdict.EQUAL


@pytest.mark.parametrize("change", [{"root": b"x" * 32}, {"count": 3}, {"previous": 3}])
def test_another_root_count_or_previous_block_is_a_difference(change: dict[str, Any]) -> None:
    other = attrs.evolve(OTHER, **change)
    assert compare_certificates(OWN, other) is Verdict.DIFFERENT
    for missing in (
        (attrs.evolve(OWN, has_missing=True), other),
        (OWN, attrs.evolve(other, has_missing=True)),
    ):
        assert compare_certificates(*missing) is Verdict.MISSING


def test_an_unknown_previous_block_is_no_difference() -> None:
    assert compare_certificates(attrs.evolve(OWN, previous=None), OTHER) is Verdict.EQUAL
    assert compare_certificates(OWN, attrs.evolve(OTHER, previous=None)) is Verdict.EQUAL


def _sorted(leaves: list[Leaf]) -> list[Leaf]:
    return sorted(leaves, key=lambda leaf: leaf.key)


@pytest.mark.parametrize("seed", seeds(20, 100))
def test_a_changed_dropped_added_doubled_or_swapped_event_is_named(seed: int) -> None:
    random = Random(seed)
    own = random_leaves(random, random.randrange(3, 80))
    assert find_difference(own, list(own)) is None
    first, second = sorted(random.sample(range(len(own)), 2))
    leaf, later = own[first], own[second]

    changed = leaf._replace(digest=digest_of(b"other"))
    other = [changed if each is leaf else each for each in own]
    assert find_difference(own, other) == Difference(Kind.CHANGED, leaf)

    fewer = [each for each in own if each is not leaf]
    assert find_difference(own, fewer) == Difference(Kind.DROPPED, leaf)
    assert find_difference(fewer, own) == Difference(Kind.ADDED, leaf)

    swapped = list(own)
    swapped[first] = leaf._replace(event_id=later.event_id, digest=later.digest)
    swapped[second] = later._replace(event_id=leaf.event_id, digest=leaf.digest)
    assert find_difference(own, swapped) == Difference(Kind.SWAPPED, leaf)

    again = leaf._replace(stamp=random.randrange(256), number=1_000)
    doubled = _sorted([*own, again])
    assert find_difference(own, doubled) == Difference(Kind.DOUBLED, leaf)
    found = find_difference(doubled, own)
    assert found is not None and found.kind is Kind.DOUBLED
    assert found.leaf.event_id == leaf.event_id


def test_a_moved_event_is_named_from_both_sides() -> None:
    own = [make_leaf(1), make_leaf(2), make_leaf(3)]
    moved = own[0]._replace(stamp=9)
    other = [own[1], own[2], moved]
    assert find_difference(own, other) == Difference(Kind.SWAPPED, own[0])
    assert find_difference(other, own) == Difference(Kind.SWAPPED, moved)


def test_an_empty_block_differs_in_the_first_event() -> None:
    leaves = [make_leaf(1), make_leaf(2)]
    assert find_difference([], leaves) == Difference(Kind.ADDED, leaves[0])
    assert find_difference(leaves, []) == Difference(Kind.DROPPED, leaves[0])
    assert find_difference([], []) is None
