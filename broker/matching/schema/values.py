"""What an expression can evaluate to, over all valid documents of a type.

Each class stands for a set of values that holds every value which occurs, and maybe more: so "can
not be true" is certain, and "can be true" is a perhaps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import attrs

from broker.matching.query.number import number_of
from broker.matching.schema.blame import Why, deepest, listed
from broker.matching.schema.limits import MAX_VALUES
from broker.matching.schema.places import NodeKind, Place

_NOTHING: Final[frozenset[Place]] = frozenset()


@attrs.frozen(slots=True)
class Truth:
    """A boolean. `why` says why it can not be true, where that is known."""

    can_be_true: bool
    can_be_false: bool
    why: Why | None = None


UNKNOWN_TRUTH: Final = Truth(True, True)
TRUE: Final = Truth(True, False)


@attrs.frozen(slots=True)
class Numbers:
    """Numbers from `low` to `high`, none if `low` is greater; and NaN, if `nan`."""

    low: float
    high: float
    nan: bool
    why: Why | None = None

    @property
    def point(self) -> float | None:
        """The only number that it can be, if there is one."""
        return self.low if self.low == self.high and not self.nan else None


UNKNOWN_NUMBER: Final = Numbers(-math.inf, math.inf, True)
COUNT: Final = Numbers(0.0, math.inf, False)


@attrs.frozen(slots=True)
class Strings:
    """The strings in `values`, any if that is None; `source` is what they belong to, in words."""

    values: frozenset[str] | None
    source: Callable[[], str] | None = None
    why: Why | None = None


UNKNOWN_STRING: Final = Strings(None)


@attrs.frozen(slots=True)
class NodeSet:
    """Nodes at `places`; at each of `certain` there is at least one in every valid document."""

    places: frozenset[Place]
    certain: frozenset[Place] = _NOTHING
    why: Why | None = None
    #: Why there is none.


Value: TypeAlias = Truth | Numbers | Strings | NodeSet


def truth_of(value: Value) -> Truth:
    """As `boolean()` converts it."""
    match value:
        case Truth():
            return value
        case NodeSet(places=places, certain=certain, why=why):
            return Truth(bool(places), not certain, why)
        case Numbers(low=low, high=high, nan=nan, why=why):
            can_be_true = low <= high and not low == high == 0
            return Truth(can_be_true, nan or low <= 0 <= high, why)
        case Strings(values=values, why=why):
            if values is None:
                return UNKNOWN_TRUTH
            return Truth(any(values), "" in values, why)


def strings_of(value: Value) -> Strings:
    """As `string()` converts it: of a node-set that of its first node."""
    match value:
        case Strings():
            return value
        case Truth(can_be_true=can_be_true, can_be_false=can_be_false, why=why):
            both = (("true", can_be_true), ("false", can_be_false))
            return Strings(frozenset(text for text, can_be in both if can_be), None, why)
        case Numbers():
            return UNKNOWN_STRING
        case NodeSet(places=places, certain=certain, why=why):
            values = node_values(places)
            if values is not None and not certain:
                values |= {""}
            return Strings(values, source_of(places), why)


def numbers_of(value: Value) -> Numbers:
    """As `number()` converts it."""
    match value:
        case Numbers():
            return value
        case Truth(can_be_true=can_be_true, can_be_false=can_be_false, why=why):
            return Numbers(0.0 if can_be_false else 1.0, 1.0 if can_be_true else 0.0, False, why)
        case _:
            text = strings_of(value)
            return UNKNOWN_NUMBER if text.values is None else hull(text.values, text.why)


def hull(texts: Iterable[str], why: Why | None = None) -> Numbers:
    """All numbers that these texts write."""
    numbers = [number_of(text) for text in texts]
    real = [number for number in numbers if not math.isnan(number)]
    low, high = min(real, default=math.inf), max(real, default=-math.inf)
    return Numbers(low, high, len(real) < len(numbers), why)


def node_values(places: Iterable[Place]) -> frozenset[str] | None:
    """All string-values of nodes at these places; None if they are not known."""
    found: set[str] = set()
    for place in places:
        if place.values is None:
            return None
        found |= place.values
    return frozenset(found) if len(found) <= MAX_VALUES else None


def source_of(places: Iterable[Place]) -> Callable[[], str]:
    """What nodes at these places are called in a message."""

    def words() -> str:
        names = set()
        for place in places:
            owner = place.parents[0].qualified
            attribute = f"attribute {place.qualified!r} of {owner}"
            names.add(attribute if place.kind is NodeKind.ATTRIBUTE else place.label)
        return listed(names, quoted=False)

    return words


def union(one: NodeSet, other: NodeSet) -> NodeSet:
    """The nodes of both."""
    places = one.places | other.places
    why = None if places else deepest(one.why, other.why)
    return NodeSet(places, one.certain | other.certain, why)
