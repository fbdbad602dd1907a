"""XPath's core functions on sets of possible values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from broker.matching.query.tree import ValueType
from broker.matching.query.value_type import CORE_FUNCTIONS
from broker.matching.schema.abstract_value import (
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
    to_numbers,
    to_strings,
    to_truth,
)
from broker.matching.schema.cause import FailedPart
from broker.matching.schema.schema_node import MAX_WORK, NodeKind, SchemaNode


def evaluate_function(name: str, arguments: Sequence[Value], position: int) -> Value:
    """Return the possible results of a function; not for `id`, `position` and `last`.

    A context node that it reads is an argument.
    """
    if name == "not":
        return _not(to_truth(arguments[0]), position)
    known = _KNOWN.get(name)
    if known is not None:
        return known(*arguments)
    result = CORE_FUNCTIONS[name].result_type
    if result is ValueType.BOOLEAN:
        return UNKNOWN_TRUTH
    return UNKNOWN_NUMBER if result is ValueType.NUMBER else UNKNOWN_STRING


def _not(truth: Truth, position: int) -> Truth:
    if truth.can_be_false:
        return Truth(True, truth.can_be_true)
    cause = FailedPart(position, lambda: "makes the negated part true of every event")
    return Truth(False, truth.can_be_true, cause)


def _count(node_set: Value) -> Numbers:
    assert isinstance(node_set, NodeSet)
    if not node_set.members:
        return Numbers(0.0, 0.0, False, node_set.cause)
    return Numbers(float(len(node_set.certain)), math.inf, False)


def _sum(node_set: Value) -> Numbers:
    assert isinstance(node_set, NodeSet)
    return UNKNOWN_NUMBER if node_set.members else Numbers(0.0, 0.0, False, node_set.cause)


def _string_length(value: Value) -> Numbers:
    text = to_strings(value)
    if text.values is None:
        return COUNT
    lengths = [float(len(each)) for each in text.values]
    return Numbers(min(lengths, default=0.0), max(lengths, default=0.0), False, text.cause)


def _rounded(value: Value) -> Numbers:
    number = to_numbers(value)
    return number if number.low > number.high or number.point == 0 else UNKNOWN_NUMBER


def _empty_if_first_is(value: Value, *_: Value) -> Strings:
    text = to_strings(value)
    return text if text.values == frozenset({""}) else UNKNOWN_STRING


def _on_pairs(test: Callable[[str, str], bool]) -> Callable[[Value, Value], Truth]:
    def holds(one: Value, other: Value) -> Truth:
        left, right = to_strings(one), to_strings(other)
        if left.values is None or right.values is None:
            return UNKNOWN_TRUTH
        if len(left.values) * len(right.values) > MAX_WORK:
            return UNKNOWN_TRUTH
        found = {test(a, b) for a in left.values for b in right.values}
        return Truth(True in found, False in found, left.cause or right.cause)

    return holds


def _names(of: Callable[[SchemaNode], frozenset[str] | None]) -> Callable[[Value], Strings]:
    def name(node_set: Value) -> Strings:
        assert isinstance(node_set, NodeSet)
        found: set[str] = set() if node_set.certain else {""}
        for node in node_set.members:
            names = of(node)
            if names is None:
                return UNKNOWN_STRING
            found |= names
        return Strings(frozenset(found), None, node_set.cause)

    return name


def _named(node: SchemaNode, name: str) -> frozenset[str] | None:
    # For a processing instruction it is the target, for a namespace the prefix.
    return None if node.kind in (NodeKind.COMMENT, NodeKind.NAMESPACE) else frozenset({name})


def _namespace_uri(node: SchemaNode) -> frozenset[str] | None:
    if node.kind in (NodeKind.ELEMENT, NodeKind.ATTRIBUTE):
        return node.namespaces
    return None if node.kind is NodeKind.NAMESPACE else frozenset({""})


_KNOWN: dict[str, Callable[..., Value]] = {
    "true": lambda: TRUE,
    "false": lambda: Truth(False, True),
    "boolean": to_truth,
    "count": _count,
    "sum": _sum,
    "number": to_numbers,
    "string": to_strings,
    "string-length": _string_length,
    "starts-with": _on_pairs(str.startswith),
    "contains": _on_pairs(lambda text, part: part in text),
    **dict.fromkeys(("floor", "ceiling", "round"), _rounded),
    **dict.fromkeys(
        ("normalize-space", "substring", "substring-before", "substring-after", "translate"),
        _empty_if_first_is,
    ),
    "local-name": _names(lambda node: _named(node, node.local)),
    "name": _names(lambda node: _named(node, node.qualified)),
    "namespace-uri": _names(_namespace_uri),
}
