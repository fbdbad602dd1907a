"""The standing of a node in its mesh: level, resilience, and shared elements of its paths.

(DCP D62, D63, D70, K11, T6, T7.) Each node derives its own from those of its parents, and states it
to its children.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from plugins.dcp.control import MOST_LEVEL, MOST_SHARED, ParentState
from plugins.dcp.mesh.selection import Diversity


@attrs.frozen
class Standing:
    """Standing of a node, as its children know it."""

    level: int = 0
    paths: int = 0
    """So many failures of nodes cut it off; resilience is one less."""
    shared: frozenset[str] = frozenset()
    """Nodes and diversity keys on each path from a root to it, with its own."""


def elements_of(name: str, diversity: Diversity) -> frozenset[str]:
    """Return the elements that fail with a node: itself, and those of its diversity keys."""
    return frozenset({f"node {name}", *(f"{kind} {which}" for kind, which in diversity.items())})


def root_standing(name: str, diversity: Diversity, roots: int) -> Standing:
    return Standing(0, roots, elements_of(name, diversity))


def derive_standing(
    name: str, diversity: Diversity, parents: Sequence[Standing], fixed_level: int | None
) -> Standing:
    """Return the standing of a node with these live parents.

    While the node has children, its level is fixed: it may fall, and does not rise (D63, T6).
    """
    level = min(MOST_LEVEL, 1 + max((each.level for each in parents), default=0))
    if fixed_level is not None:
        level = min(level, fixed_level) if parents else fixed_level
    paths = min([len(parents), *(each.paths for each in parents)])
    common = frozenset.intersection(*(each.shared for each in parents)) if parents else frozenset()
    return Standing(level, paths, common | elements_of(name, diversity))


def encode_standing(standing: Standing) -> ParentState:
    """Return the message that states a standing to children."""
    shared = tuple(sorted(standing.shared)[:MOST_SHARED])
    return ParentState(standing.level, standing.paths, shared)
