"""XPath's core functions on sets of possible values: those that can decide something.

All others give any value of their type; their arguments are evaluated all the same, since a query
reads what stands in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from broker.matching.query.function_signature import FUNCTIONS
from broker.matching.query.tree import ValueType
from broker.matching.schema.blame import Blame
from broker.matching.schema.limits import MAX_WORK
from broker.matching.schema.places import NodeKind, Place
from broker.matching.schema.values import (
    COUNT,
    TRUE,
    UNKNOWN_NUMBER,
    UNKNOWN_STRING,
    UNKNOWN_TRUTH,
    NodeSet,
    Numbers,
    Strings,
    Truth,
    Value,
    numbers_of,
    strings_of,
    truth_of,
)


def call(name: str, arguments: Sequence[Value], position: int) -> Value:
    """What a function gives; a context node that it reads is among the arguments.

    `id`, `position` and `last` are not for here.
    """
    if name == "not":
        return _not(truth_of(arguments[0]), position)
    known = _KNOWN.get(name)
    if known is not None:
        return known(*arguments)
    result = FUNCTIONS[name].result
    if result is ValueType.BOOLEAN:
        return UNKNOWN_TRUTH
    return UNKNOWN_NUMBER if result is ValueType.NUMBER else UNKNOWN_STRING


def _not(truth: Truth, position: int) -> Truth:
    if truth.can_be_false:
        return Truth(True, truth.can_be_true)
    why = Blame(position, lambda: "makes what is negated here true of every event")
    return Truth(False, truth.can_be_true, why)


def _false() -> Truth:
    return Truth(False, True, None)


def _count(nodes: Value) -> Numbers:
    assert isinstance(nodes, NodeSet)
    if not nodes.places:
        return Numbers(0.0, 0.0, False, nodes.why)
    return Numbers(float(len(nodes.certain)), math.inf, False)


def _sum(nodes: Value) -> Numbers:
    assert isinstance(nodes, NodeSet)
    return UNKNOWN_NUMBER if nodes.places else Numbers(0.0, 0.0, False, nodes.why)


def _string_length(value: Value) -> Numbers:
    text = strings_of(value)
    if text.values is None:
        return COUNT
    lengths = [float(len(each)) for each in text.values]
    return Numbers(min(lengths, default=0.0), max(lengths, default=0.0), False, text.why)


def _on_pairs(test: Callable[[str, str], bool]) -> Callable[[Value, Value], Truth]:
    def holds(one: Value, other: Value) -> Truth:
        left, right = strings_of(one), strings_of(other)
        if left.values is None or right.values is None:
            return UNKNOWN_TRUTH
        if len(left.values) * len(right.values) > MAX_WORK:
            return UNKNOWN_TRUTH
        found = {test(a, b) for a in left.values for b in right.values}
        return Truth(True in found, False in found, left.why or right.why)

    return holds


def _names(of: Callable[[Place], frozenset[str] | None]) -> Callable[[Value], Strings]:
    def name(nodes: Value) -> Strings:
        assert isinstance(nodes, NodeSet)
        found: set[str] = set() if nodes.certain else {""}
        for place in nodes.places:
            names = of(place)
            if names is None:
                return UNKNOWN_STRING
            found |= names
        return Strings(frozenset(found), None, nodes.why)

    return name


def _local_name(place: Place) -> frozenset[str] | None:
    return _named(place, place.local)


def _name(place: Place) -> frozenset[str] | None:
    return _named(place, place.qualified)


def _named(place: Place, name: str) -> frozenset[str] | None:
    # A processing instruction has its target, a namespace its prefix.
    return None if place.kind in (NodeKind.REMARK, NodeKind.NAMESPACE) else frozenset({name})


def _namespace_uri(place: Place) -> frozenset[str] | None:
    if place.kind in (NodeKind.ELEMENT, NodeKind.ATTRIBUTE):
        return place.namespaces
    return None if place.kind is NodeKind.NAMESPACE else frozenset({""})


_KNOWN: dict[str, Callable[..., Value]] = {
    "true": lambda: TRUE,
    "false": _false,
    "boolean": truth_of,
    "count": _count,
    "sum": _sum,
    "number": numbers_of,
    "string": strings_of,
    "string-length": _string_length,
    "starts-with": _on_pairs(str.startswith),
    "contains": _on_pairs(lambda text, part: part in text),
    "local-name": _names(_local_name),
    "name": _names(_name),
    "namespace-uri": _names(_namespace_uri),
}
