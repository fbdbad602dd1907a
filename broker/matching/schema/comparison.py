"""XPath's comparisons (3.4) on sets of possible values.

Unknown where libxml2 and the standard may differ: NaN with `!=`, a node-set with a boolean.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.matching.query.tree import MIRRORED_OPERATORS
from broker.matching.schema.abstract_value import (
    UNKNOWN_TRUTH,
    NodeSet,
    Numbers,
    Strings,
    Truth,
    Value,
    describe_source,
    number_range,
    string_values,
    to_numbers,
    to_strings,
    to_truth,
)
from broker.matching.schema.cause import Cause, FailedPart, closest_name, deeper_cause, format_list


def compare(operator: str, left: Value, right: Value, position: int) -> Truth:
    truth = _compare(operator, left, right)
    if truth.can_be_true:
        return truth
    cause = truth.cause or _find_cause(left, right, position)
    return Truth(False, truth.can_be_false, cause)


def _compare(operator: str, left: Value, right: Value) -> Truth:
    if isinstance(left, NodeSet):
        return _node_set(operator, left, right)
    if isinstance(right, NodeSet):
        return _node_set(MIRRORED_OPERATORS[operator], right, left)
    if operator in ("=", "!="):
        if isinstance(left, Truth) or isinstance(right, Truth):
            return _truths(operator, to_truth(left), to_truth(right))
        if not (isinstance(left, Numbers) or isinstance(right, Numbers)):
            return _strings(operator, to_strings(left), to_strings(right))
    return _numbers(operator, to_numbers(left), to_numbers(right))


def _node_set(operator: str, node_set: NodeSet, other: Value) -> Truth:
    if isinstance(other, Truth):
        return (
            _truths(operator, to_truth(node_set), other)
            if operator in ("=", "!=")
            else UNKNOWN_TRUTH
        )
    if not node_set.members:
        return Truth(False, True, node_set.cause)
    values = string_values(node_set.members)
    if isinstance(other, NodeSet):
        if not other.members:
            return Truth(False, True, other.cause)
        others = string_values(other.members)
        against: Strings | Numbers = Strings(others, describe_source(other.members))
        certain = bool(node_set.certain and other.certain)
    else:
        against = other
        certain = bool(node_set.certain)
    mine = Strings(values, describe_source(node_set.members))
    if operator in ("=", "!=") and isinstance(against, Strings):
        one = _strings(operator, mine, against)
    else:
        numbers = number_range(values) if values is not None else to_numbers(mine)
        one = _numbers(operator, numbers, to_numbers(against))
    # It is certainly true only if a pair exists and every possible pair satisfies it.
    return Truth(one.can_be_true, one.can_be_false or not certain, one.cause)


def _truths(operator: str, left: Truth, right: Truth) -> Truth:
    same = (left.can_be_true and right.can_be_true) or (left.can_be_false and right.can_be_false)
    differ = (left.can_be_true and right.can_be_false) or (left.can_be_false and right.can_be_true)
    return Truth(same, differ) if operator == "=" else Truth(differ, same)


def _strings(operator: str, left: Strings, right: Strings) -> Truth:
    if left.values is None or right.values is None:
        return UNKNOWN_TRUTH
    same = not left.values.isdisjoint(right.values)
    differ = len(left.values | right.values) > 1
    return Truth(same, differ) if operator == "=" else Truth(differ, same)


def _numbers(operator: str, left: Numbers, right: Numbers) -> Truth:
    nan = left.nan or right.nan
    if left.low > left.high or right.low > right.high:
        return Truth(operator == "!=", True)
    if operator in ("<", ">=", ">", "<="):
        if operator in (">", "<="):
            left, right = right, left
        # Now `left < right`; the opposite for `>=` and `<=`.
        less, not_less = left.low < right.high, left.high >= right.low
        if operator in ("<", ">"):
            return Truth(less, not_less or nan)
        return Truth(not_less, less or nan)
    same = left.low <= right.high and right.low <= left.high
    differ = left.point is None or right.point is None or left.point != right.point
    return Truth(same, differ or nan) if operator == "=" else Truth(differ or nan, same or nan)


def _find_cause(left: Value, right: Value, position: int) -> Cause:
    sides = (left, right)
    empty = [side.cause for side in sides if not (isinstance(side, NodeSet) and side.members)]
    inner = None
    for cause in empty:
        inner = deeper_cause(inner, cause)
    if inner is not None:
        return inner
    for side, other in (sides, sides[::-1]):
        if not isinstance(side, Numbers):
            text = to_strings(side)
            if text.source is not None and text.values:
                return FailedPart(position, _describe_values(side, text, other))
    return FailedPart(position, lambda: "makes this comparison always false")


def _describe_values(side: Value, text: Strings, other: Value) -> Callable[[], str]:
    source, values = text.source, text.values
    assert source is not None and values
    if isinstance(side, NodeSet):
        values = string_values(side.members) or values
    wanted = to_strings(other).values

    def words() -> str:
        sentence = f"says that {source()} is {format_list(values)}"
        close = closest_name(next(iter(wanted)), values) if wanted and len(wanted) == 1 else ""
        return f"{sentence}; there is {close!r}" if close and len(values) > 4 else sentence

    return words
