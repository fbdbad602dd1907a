"""The choice of parents among the nodes that offer a place (DCP D60, D61, T7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs
from zope.interface import Interface, implementer

#: Kinds of things that fail together with a node, and which one: host, uplink.
Diversity: TypeAlias = Mapping[str, str]


@attrs.frozen
class Candidate:
    """A parent, or a node that offers a place."""

    name: str
    level: int
    diversity: Diversity
    response: float = 0.0
    """Seconds in which it answered."""


class IParentSelector(Interface):
    """Decides which candidates become parents."""

    def rank(candidate: Candidate, parents: Sequence[Candidate]) -> object:
        """Return a sort key of a candidate beside the parents chosen so far: the lowest wins."""


@implementer(IParentSelector)
class DiverseSelector:
    """Prefers diversity keys that no other parent has, then a low level, then a quick response."""

    def rank(
        self, candidate: Candidate, parents: Sequence[Candidate]
    ) -> tuple[bool, int, int, float]:
        used = {item for parent in parents for item in parent.diversity.items()}
        shared = sum(item in used for item in candidate.diversity.items())
        is_known = any(parent.name == candidate.name for parent in parents)
        return is_known, shared, candidate.level, candidate.response


def select_parents(
    selector: DiverseSelector,
    offers: Sequence[Candidate],
    parents: Sequence[Candidate],
    count: int,
) -> list[Candidate]:
    """Return at most `count` of the offers, the best first."""
    chosen: list[Candidate] = []
    left = list(offers)
    while left and len(chosen) < count:
        best = min(left, key=lambda each: selector.rank(each, [*parents, *chosen]))
        left.remove(best)
        chosen.append(best)
    return chosen
