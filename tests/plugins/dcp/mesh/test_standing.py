"""Level, paths and shared things of a node."""

from __future__ import annotations

import pytest

from plugins.dcp.control import MOST_LEVEL
from plugins.dcp.mesh.standing import (
    Standing,
    derive_standing,
    elements_of,
    root_standing,
)


def make_parent(level: int = 0, paths: int = 2, *shared: str) -> Standing:
    return Standing(level, paths, frozenset(shared))


def derive(*parents: Standing, fixed: int | None = None) -> Standing:
    return derive_standing("n", {"host": "h1"}, parents, fixed)


# ------------------------------------------------------------------ level


def test_a_root_has_level_0() -> None:
    assert root_standing("r", {}, 3).level == 0


@pytest.mark.parametrize(("levels", "level"), [([0], 1), ([0, 0], 1), ([1, 4, 2], 5), ([31], 32)])
def test_the_level_is_one_more_than_the_greatest_of_the_parents(
    levels: list[int], level: int
) -> None:
    assert derive(*map(make_parent, levels)).level == level


def test_the_level_has_a_most() -> None:
    assert derive(make_parent(MOST_LEVEL)).level == MOST_LEVEL == 32


def test_a_fixed_level_may_fall_and_does_not_rise() -> None:
    assert derive(make_parent(1), fixed=3).level == 2
    assert derive(make_parent(2), fixed=3).level == 3
    assert derive(make_parent(7), fixed=3).level == 3
    # Without parents it does neither.
    assert derive(fixed=3).level == 3


# ------------------------------------------------------------------ paths


def test_a_root_has_as_many_paths_as_there_are_roots() -> None:
    assert root_standing("r", {}, 3).paths == 3


@pytest.mark.parametrize(
    ("paths", "expected"),
    [([], 0), ([5], 1), ([5, 5], 2), ([1, 5], 1), ([3, 2, 4], 2), ([0, 3], 0)],
)
def test_paths_are_the_smallest_number_of_parents_and_their_paths(
    paths: list[int], expected: int
) -> None:
    assert derive(*(make_parent(0, each) for each in paths)).paths == expected


# ------------------------------------------------------------------ shared things


def test_the_own_name_and_diversity_keys_are_shared() -> None:
    own = frozenset({"node n", "host h1", "uplink u1"})
    assert elements_of("n", {"host": "h1", "uplink": "u1"}) == own
    assert root_standing("n", {"host": "h1", "uplink": "u1"}, 2).shared == own


def test_things_that_all_parents_share_are_shared() -> None:
    first = make_parent(0, 2, "node a", "uplink u1", "node r")
    second = make_parent(1, 2, "node b", "uplink u1", "node r")
    third = make_parent(0, 2, "node c", "node r")
    own = {"node n", "host h1"}
    assert derive(first, second).shared == own | {"uplink u1", "node r"}
    assert derive(first, second, third).shared == own | {"node r"}
    assert derive(first).shared == own | first.shared
    assert derive().shared == own
