"""Sets of possible values of an expression, over all valid documents of a type.

So "can not be true" is certain, "can be true" is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import attrs

from broker.matching.query.number import parse_number
from broker.matching.schema.cause import Cause, deeper_cause, format_list
from broker.matching.schema.schema_node import MAX_VALUES, NodeKind, SchemaNode

_NOTHING: Final[frozenset[SchemaNode]] = frozenset()


@attrs.frozen(slots=True)
class Truth:
    """A boolean. `cause` is the reason why it can not be true, if known."""

    can_be_true: bool
    can_be_false: bool
    cause: Cause | None = None


UNKNOWN_TRUTH: Final = Truth(True, True)
TRUE: Final = Truth(True, False)


@attrs.frozen(slots=True)
class Numbers:
    """Numbers from `low` to `high` (none if `low` is greater), and NaN if `nan`."""

    low: float
    high: float
    nan: bool
    cause: Cause | None = None

    @property
    def point(self) -> float | None:
        return self.low if self.low == self.high and not self.nan else None


UNKNOWN_NUMBER: Final = Numbers(-math.inf, math.inf, True)
NAN: Final = Numbers(math.inf, -math.inf, True)
COUNT: Final = Numbers(0.0, math.inf, False)


@attrs.frozen(slots=True)
class Strings:
    """The strings in `values`, any string if None. `source` describes their origin in messages."""

    values: frozenset[str] | None
    source: Callable[[], str] | None = None
    cause: Cause | None = None


UNKNOWN_STRING: Final = Strings(None)


@attrs.frozen(slots=True)
class NodeSet:
    """Nodes at `members`. Every valid document has a node at each member of `certain`."""

    members: frozenset[SchemaNode]
    certain: frozenset[SchemaNode] = _NOTHING
    cause: Cause | None = None
    #: Reason why the set is empty.


Value: TypeAlias = Truth | Numbers | Strings | NodeSet


def to_truth(value: Value) -> Truth:
    match value:
        case Truth():
            return value
        case NodeSet(members=members, certain=certain, cause=cause):
            return Truth(bool(members), not certain, cause)
        case Numbers(low=low, high=high, nan=nan, cause=cause):
            can_be_true = low <= high and not low == high == 0
            return Truth(can_be_true, nan or low <= 0 <= high, cause)
        case Strings(values=values, cause=cause):
            if values is None:
                return UNKNOWN_TRUTH
            return Truth(any(values), "" in values, cause)


def to_strings(value: Value) -> Strings:
    """Convert as `string()` does; of a node-set the first node counts."""
    match value:
        case Strings():
            return value
        case Truth(can_be_true=can_be_true, can_be_false=can_be_false, cause=cause):
            both = (("true", can_be_true), ("false", can_be_false))
            return Strings(frozenset(text for text, can_be in both if can_be), None, cause)
        case Numbers():
            return UNKNOWN_STRING
        case NodeSet(members=members, certain=certain, cause=cause):
            values = string_values(members)
            if values is not None and not certain:
                values |= {""}
            return Strings(values, describe_source(members), cause)


def to_numbers(value: Value) -> Numbers:
    match value:
        case Numbers():
            return value
        case Truth(can_be_true=can_be_true, can_be_false=can_be_false, cause=cause):
            return Numbers(0.0 if can_be_false else 1.0, 1.0 if can_be_true else 0.0, False, cause)
        case _:
            text = to_strings(value)
            return UNKNOWN_NUMBER if text.values is None else number_range(text.values, text.cause)


def number_range(texts: Iterable[str], cause: Cause | None = None) -> Numbers:
    numbers = [parse_number(text) for text in texts]
    real = [number for number in numbers if not math.isnan(number)]
    low, high = min(real, default=math.inf), max(real, default=-math.inf)
    return Numbers(low, high, len(real) < len(numbers), cause)


def string_values(nodes: Iterable[SchemaNode]) -> frozenset[str] | None:
    found: set[str] = set()
    for node in nodes:
        if node.values is None:
            return None
        found |= node.values
    return frozenset(found) if len(found) <= MAX_VALUES else None


def describe_source(nodes: Iterable[SchemaNode]) -> Callable[[], str]:

    def words() -> str:
        names = set()
        for node in nodes:
            owner = node.parents[0].qualified
            attribute = f"attribute {node.qualified!r} of {owner}"
            names.add(attribute if node.kind is NodeKind.ATTRIBUTE else node.label)
        return format_list(names, quoted=False)

    return words


def unite(one: NodeSet, other: NodeSet) -> NodeSet:
    nodes = one.members | other.members
    cause = None if nodes else deeper_cause(one.cause, other.cause)
    return NodeSet(nodes, one.certain | other.certain, cause)
