"""The choice of parents among the nodes that offer a place (DCP D60, D61, T7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any, ClassVar, Final, TypeAlias

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.transport.stacks import INamedPlugin

#: Kinds of things that fail together with a node, and which one: host, uplink.
Diversity: TypeAlias = Mapping[str, str]
#: Seconds for which the error of a selector is an alarm.
_FAULT_SECONDS: Final = 60.0
_MOST_TEXT: Final = 200


@attrs.frozen
class Candidate:
    """A parent, or a node that offers a place."""

    name: str
    level: int
    diversity: Diversity
    response: float = 0.0
    """Seconds in which it answered."""


class IParentSelector(INamedPlugin):
    """Decides which candidates become parents; found through `twisted.plugin`."""

    def rank(candidate: Candidate, parents: Sequence[Candidate]) -> Sequence[float]:
        """Return the rank of a candidate beside the parents chosen so far: the lowest wins.

        Ranks are compared as tuples. In a replacement the present parents are candidates, too.
        """


@implementer(IPlugin, IParentSelector)
@attrs.frozen
class DiverseSelector:
    """Prefers diversity keys that no other parent has, then a low level, then a quick response."""

    name: ClassVar[str] = "diverse"

    def rank(self, candidate: Candidate, parents: Sequence[Candidate]) -> Sequence[float]:
        used = {item for parent in parents for item in parent.diversity.items()}
        shared = sum(item in used for item in candidate.diversity.items())
        is_known = any(parent.name == candidate.name for parent in parents)
        return is_known, shared, candidate.level, candidate.response


diverse_selector: Final = DiverseSelector()


class GuardedSelector:
    """A selector whose errors do not end the mesh: `diverse` makes the choice in which it fails."""

    def __init__(self, selector: IParentSelector = diverse_selector) -> None:
        self._selector = selector
        self._fault: tuple[float, str] | None = None
        """Time and text of the last error."""

    def select(
        self, offers: Sequence[Candidate], parents: Sequence[Candidate], count: int, now: float
    ) -> list[Candidate]:
        """Return at most `count` of the offers, the best first, for a node with these parents."""
        try:
            return _select(self._selector, offers, parents, count)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"[:_MOST_TEXT]
            self._fault = now, text
            return _select(diverse_selector, offers, parents, count)

    def find_alarm(self, now: float) -> str:
        """Return a sentence about an error of the last minute; empty: there was none."""
        if self._fault is None or now >= self._fault[0] + _FAULT_SECONDS:
            return ""
        name, reason = self._selector.name, self._fault[1]
        return f"the selector {name} failed, and diverse chose the parents: {reason}"


def _select(
    selector: IParentSelector,
    offers: Sequence[Candidate],
    parents: Sequence[Candidate],
    count: int,
) -> list[Candidate]:
    chosen: list[Candidate] = []
    left = list(offers)
    while left and len(chosen) < count:
        beside = (*parents, *chosen)
        ranks = [_check_rank(selector.rank(each, beside)) for each in left]
        chosen.append(left.pop(ranks.index(min(ranks))))
    return chosen


def _check_rank(rank: Any) -> tuple[float, ...]:
    """Raises an exception for a rank that can not be compared."""
    numbers = tuple(rank)
    if not all(isinstance(each, int | float) and not isnan(each) for each in numbers):
        raise ValueError(f"a rank of other things than numbers: {rank!r}")
    return numbers
