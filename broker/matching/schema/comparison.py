"""XPath's comparisons (3.4) on sets of possible values.

Where libxml2 and the standard could be read apart (NaN beside `!=`, a node-set beside a boolean),
the answer is "can be both".
"""

from __future__ import annotations

from collections.abc import Callable

from broker.matching.schema.blame import Blame, Why, deepest, listed, nearest
from broker.matching.schema.values import (
    UNKNOWN_TRUTH,
    NodeSet,
    Numbers,
    Strings,
    Truth,
    Value,
    hull,
    node_values,
    numbers_of,
    source_of,
    strings_of,
    truth_of,
)

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}


def compare(operator: str, left: Value, right: Value, position: int) -> Truth:
    """What `left operator right` can be; `position` is the operator's."""
    truth = _compare(operator, left, right)
    if truth.can_be_true:
        return truth
    why = truth.why or _why(left, right, position)
    return Truth(False, truth.can_be_false, why)


def _compare(operator: str, left: Value, right: Value) -> Truth:
    if isinstance(left, NodeSet):
        return _node_set(operator, left, right)
    if isinstance(right, NodeSet):
        return _node_set(_MIRRORED[operator], right, left)
    if operator in ("=", "!="):
        if isinstance(left, Truth) or isinstance(right, Truth):
            return _truths(operator, truth_of(left), truth_of(right))
        if not (isinstance(left, Numbers) or isinstance(right, Numbers)):
            return _strings(operator, strings_of(left), strings_of(right))
    return _numbers(operator, numbers_of(left), numbers_of(right))


def _node_set(operator: str, nodes: NodeSet, other: Value) -> Truth:
    if isinstance(other, Truth):
        return (
            _truths(operator, truth_of(nodes), other) if operator in ("=", "!=") else UNKNOWN_TRUTH
        )
    if not nodes.places:
        return Truth(False, True, nodes.why)
    values = node_values(nodes.places)
    if isinstance(other, NodeSet):
        if not other.places:
            return Truth(False, True, other.why)
        others = node_values(other.places)
        against: Strings | Numbers = Strings(others, source_of(other.places))
        certain = bool(nodes.certain and other.certain)
    else:
        against = other
        certain = bool(nodes.certain)
    mine = Strings(values, source_of(nodes.places))
    if operator in ("=", "!=") and isinstance(against, Strings):
        one = _strings(operator, mine, against)
    else:
        numbers = hull(values) if values is not None else numbers_of(mine)
        one = _numbers(operator, numbers, numbers_of(against))
    # One pair must exist, and whatever it is must be enough: else it can be false.
    return Truth(one.can_be_true, one.can_be_false or not certain, one.why)


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
        # Now `left < right`, or for the other two its opposite.
        less, not_less = left.low < right.high, left.high >= right.low
        if operator in ("<", ">"):
            return Truth(less, not_less or nan)
        return Truth(not_less, less or nan)
    same = left.low <= right.high and right.low <= left.high
    differ = left.point is None or right.point is None or left.point != right.point
    return Truth(same, differ or nan) if operator == "=" else Truth(differ or nan, same or nan)


def _why(left: Value, right: Value, position: int) -> Why:
    """Where a side has no node at all, that is why; else the values that it can have."""
    sides = (left, right)
    empty = [side.why for side in sides if not (isinstance(side, NodeSet) and side.places)]
    inner = None
    for why in empty:
        inner = deepest(inner, why)
    if inner is not None:
        return inner
    for side, other in (sides, sides[::-1]):
        if not isinstance(side, Numbers):
            text = strings_of(side)
            if text.source is not None and text.values:
                return Blame(position, _limited(side, text, other))
    return Blame(position, lambda: "lets this comparison never be true")


def _limited(side: Value, text: Strings, other: Value) -> Callable[[], str]:
    source, values = text.source, text.values
    assert source is not None and values
    if isinstance(side, NodeSet):
        values = node_values(side.places) or values
    wanted = strings_of(other).values

    def words() -> str:
        said = f"says that {source()} is {listed(values)}"
        close = nearest(next(iter(wanted)), values) if wanted and len(wanted) == 1 else ""
        return f"{said}; there is {close!r}" if close and len(values) > 4 else said

    return words
