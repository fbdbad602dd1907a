"""The most that libxml2 may do for a query on a document, whatever the document is (checklist F13).

libxml2 can not be interrupted, and some of what it does grows with the square or the cube of a
document. So nothing is left to chance here: a name test may keep every node, all elements may be
siblings, all text may be in one of them. `cost.py` says what a query costs on a document as most
are; this says what nobody can exceed.

The unit is one node visited, 10 ns. What libxml2 does beside following axes, as its source has it
(`xpath.c` of version 2.14) and as it was measured:

- the nodes that a step finds from several nodes are compared each with all that were found before,
  unless the axis is `child`, `attribute`, `namespace` or `self`; and so are those of a union, and
  those of two node-sets with each other;
- a node-set is sorted for a function and in brackets, and siblings that are not in order yet are
  told apart by walking from one to the other;
- the text of a node is copied whenever it is asked for.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs

from broker.matching.limits import LIBXML2_MAX_DEPTH, SHALLOW
from broker.matching.query.extension_function import SHORT
from broker.matching.query.tree import (
    Axis,
    Binary,
    Chain,
    Expression,
    Filter,
    FunctionCall,
    KindTest,
    Literal,
    NameTest,
    Negation,
    Number,
    Origin,
    Path,
    Step,
    ValueType,
    Variable,
)
from broker.matching.query.value_type import value_type

#: Telling two nodes apart: libxml2 looks into both, and they are all over the memory.
_PAIR = 0.5
#: A character of a text compared with one that is looked for.
_CHARACTER = 0.15
#: Bytes that are copied while a node is visited.
_BYTES = 8
#: Making a value of a node or a text.
_VALUE = 10.0
#: Bytes for each node, at most, in the documents of one size.
BYTES_A_NODE = 32
#: Attributes of one element (`DocumentLimits`).
_ATTRIBUTES = 256

_SIBLINGS = frozenset({Axis.FOLLOWING_SIBLING, Axis.PRECEDING_SIBLING})
_SIDEWAYS = _SIBLINGS | {Axis.FOLLOWING, Axis.PRECEDING}
_DESCENDANTS = frozenset({Axis.DESCENDANT, Axis.DESCENDANT_OR_SELF})
_ANCESTORS = frozenset({Axis.ANCESTOR, Axis.ANCESTOR_OR_SELF})
_REVERSE = _ANCESTORS | {Axis.PRECEDING, Axis.PRECEDING_SIBLING}
_WITHOUT_DUPLICATES = frozenset({Axis.CHILD, Axis.ATTRIBUTE, Axis.NAMESPACE, Axis.SELF})
_SEARCHES = frozenset({"contains", "substring-before", "substring-after", "translate"})
_ANY_NODE = KindTest("node")
_ANY_ELEMENT = NameTest(None, None)


class Worst(NamedTuple):
    """Visits on a document that is as deep as documents may be, and on one that is `SHALLOW`."""

    deep: float
    shallow: float


@attrs.frozen
class Extent:
    """How large a document is: its nodes of all kinds, the levels of its elements, its bytes."""

    nodes: int
    depth: int
    bytes: int


@attrs.frozen
class _Contexts:
    """How often an expression is evaluated, and how often of these for one and the same node."""

    times: float
    same: float


_ONCE = _Contexts(1.0, 1.0)


@attrs.frozen
class _Nodes:
    """Node-sets of an expression, one for each of its contexts.

    `each` is the size of one, `total` of all together; a node is in `same` of them. `in_order`:
    libxml2 finds the nodes in document order. `are_leaves`: they are attributes or texts.
    """

    each: float
    total: float
    same: float
    in_order: bool = True
    are_leaves: bool = False


def worst_case(
    expression: Expression, extent: Extent, *, rewritten: bool = True, literal: int = 0
) -> float:
    """What evaluating the expression once may cost at most.

    `rewritten`: long searches in texts are made by functions of ours (see `texts.py`), whose work
    is bounded. `literal` is the length that literals are taken for which are shorter.
    """
    return _Model(extent, rewritten, literal).cost(expression, _ONCE)


class WorstCases:
    """What queries cost at worst that are one expression but for literals, by size of documents.

    Few sizes serve all documents, and few lengths all literals, so all is remembered.
    """

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self._known: dict[tuple[int, int], Worst] = {}

    def on(self, nodes: int, literal: int = 0) -> Worst:
        """On documents of so many nodes, and of `BYTES_A_NODE` for each.

        `literal` is the length of a query's longest literal in the place of one of these.
        """
        key = nodes, literal.bit_length()
        found = self._known.get(key)
        if found is None:
            deep, shallow = (
                worst_case(
                    self._expression,
                    Extent(nodes, min(nodes, depth), nodes * BYTES_A_NODE),
                    literal=1 << key[1] if literal else 0,
                )
                for depth in (LIBXML2_MAX_DEPTH, SHALLOW)
            )
            found = self._known[key] = Worst(deep, shallow)
        return found


class _Model:
    def __init__(self, extent: Extent, rewritten: bool, literal: int) -> None:
        self._nodes = float(extent.nodes)
        self._depth = float(extent.depth)
        self._bytes = float(extent.bytes)
        self._rewritten = rewritten
        self._literal = literal

    def cost(self, expression: Expression, at: _Contexts) -> float:
        """Of all evaluations together."""
        return self._evaluate(expression, at)[0]

    def _evaluate(self, expression: Expression, at: _Contexts) -> tuple[float, _Nodes | None]:
        match expression:
            case Number() | Literal() | Variable():
                return at.times, None
            case Path():
                return self._path(expression, at)
            case Filter(primary=primary, predicates=predicates):
                cost, nodes = self._node_sets(primary, at)
                cost += self._sorting(nodes)
                return cost + self._predicates(predicates, _Contexts(nodes.total, at.times)), nodes
            case Negation(operand=operand):
                return self._value(operand, at) + at.times, None
            case Chain(operator="|", operands=operands):
                return self._union(operands, at)
            case Chain(operands=operands):
                return at.times + sum(self.cost(operand, at) for operand in operands), None
            case Binary():
                return self._binary(expression, at), None
            case FunctionCall():
                return self._call(expression, at)

    def _node_sets(self, expression: Expression, at: _Contexts) -> tuple[float, _Nodes]:
        cost, nodes = self._evaluate(expression, at)
        assert nodes is not None, "the parser lets nothing else be a node-set"
        return cost, nodes

    # ---------------------------------------------------------------- node-sets

    def _union(self, operands: tuple[Expression, ...], at: _Contexts) -> tuple[float, _Nodes]:
        cost, united = self._node_sets(operands[0], at)
        for operand in operands[1:]:
            more, nodes = self._node_sets(operand, at)
            cost += more + _PAIR * min(united.total * nodes.each, united.each * nodes.total)
            united = _Nodes(
                min(united.each + nodes.each, self._nodes),
                united.total + nodes.total,
                min(united.same + nodes.same, at.times),
                in_order=False,
            )
        return cost + at.times, united

    def _sorting(self, nodes: _Nodes) -> float:
        if nodes.each <= 1:
            return nodes.total
        return nodes.total * (self._depth if nodes.in_order else _PAIR * self._nodes)

    def _path(self, path: Path, at: _Contexts) -> tuple[float, _Nodes]:
        if isinstance(path.start, Origin):
            fixed = path.start is not Origin.CONTEXT
            cost, nodes = at.times, _Nodes(1.0, at.times, at.times if fixed else at.same)
        else:
            cost, nodes = self._node_sets(path.start, at)
            fixed = False
        steps = path.steps
        for place, step in enumerate(steps):
            if fixed and not place and step.axis is Axis.CHILD:
                # A document has one element.
                more = self._predicates(step.predicates, _Contexts(at.times, at.times))
            elif _is_skipped(steps, place):
                continue
            else:
                if place and _is_skipped(steps, place - 1):
                    step = attrs.evolve(step, axis=_DOWNWARDS[step.axis])
                more, nodes = self._step(step, nodes, at.times)
            cost += more
        return cost, nodes

    def _step(self, step: Step, origins: _Nodes, times: float) -> tuple[float, _Nodes]:
        axis = step.axis
        visited, each, same = self._reach(step, origins, times)
        total = visited
        if axis not in _WITHOUT_DUPLICATES:
            total = min(visited, times * self._nodes)
        several = origins.each > 1
        merges = several and axis not in _WITHOUT_DUPLICATES
        in_order = origins.in_order and axis not in _REVERSE
        if several:
            in_order = in_order and axis in (Axis.SELF, Axis.ATTRIBUTE)
        cost = visited + (_PAIR * visited * each / 2 if merges else 0.0)
        # A node is a context as often as it is found, which is before it is compared.
        contexts = _Contexts(visited, visited if merges else same)
        if any(isinstance(predicate, Number) for predicate in step.predicates):
            # One place for each node that the step starts from.
            each, total = min(each, origins.each), min(total, origins.total)
        more = self._predicates(step.predicates, contexts)
        return cost + more, _Nodes(each, total, same, in_order, _finds_leaves(step))

    def _reach(self, step: Step, origins: _Nodes, times: float) -> tuple[float, float, float]:
        """What a step visits in all and finds for one context at most, and one node how often."""
        most, total, same = self._nodes, origins.total, origins.same
        axis = step.axis
        if axis is Axis.SELF:
            return total, origins.each, same
        if axis is Axis.PARENT:
            return total, origins.each, times
        if axis in _ANCESTORS:
            return total * self._depth, min(most, origins.each * self._depth), times
        if axis in _SIDEWAYS:
            place = _near(step)
            if place is not None:
                # From all siblings together no node is passed by more often than that.
                return min(total * most, same * place * most), origins.each, times
            return total * most, most, times
        if axis in _DESCENDANTS:
            visited = min(total * most, same * most * self._depth)
            return visited, most, min(times, same * self._depth)
        if axis is Axis.ATTRIBUTE:
            visited = min(same * most, total * _ATTRIBUTES)
            if isinstance(step.test, NameTest) and step.test.local is not None:
                return visited, origins.each, same
            return visited, min(most, origins.each * _ATTRIBUTES), same
        if axis is Axis.NAMESPACE:
            return total * most, most, same
        return min(same * most, total * most), most, same

    def _predicates(self, predicates: tuple[Expression, ...], at: _Contexts) -> float:
        return sum(self._truth(predicate, at) + at.times for predicate in predicates)

    def _truth(self, predicate: Expression, at: _Contexts) -> float:
        if value_type(predicate) is ValueType.STRING:
            return self._value(predicate, at)
        return self.cost(predicate, at)

    # ---------------------------------------------------------------- values

    def _value(self, expression: Expression, at: _Contexts) -> float:
        """Evaluating an expression and making a text or a number of it."""
        cost, nodes = self._evaluate(expression, at)
        if nodes is None:
            return cost
        return cost + self._sorting(nodes) + self._texts(nodes, min(nodes.total, at.times))

    def _texts(self, nodes: _Nodes, number: float) -> float:
        """The texts of so many of the nodes."""
        # A text is in all elements around it, and in one attribute.
        whole, levels = self._bytes / _BYTES, 1.0
        if not nodes.are_leaves:
            whole, levels = whole + self._nodes, self._depth
        return number * _VALUE + min(number, nodes.same * levels) * whole

    def _binary(self, node: Binary, at: _Contexts) -> float:
        cost = at.times
        sets: list[_Nodes] = []
        for side in (node.left, node.right):
            more, nodes = self._evaluate(side, at)
            cost += more
            if nodes is not None:
                sets.append(nodes)
                cost += self._texts(nodes, nodes.total)
        if len(sets) == 2:
            left, right = sets
            cost += _PAIR * min(left.total * right.each, left.each * right.total)
        return cost

    def _call(self, call: FunctionCall, at: _Contexts) -> tuple[float, _Nodes | None]:
        cost = at.times * _VALUE
        if call.name == "count":
            return cost + self.cost(call.arguments[0], at), None
        if call.name in ("boolean", "not", "sum", "id"):
            more, nodes = self._evaluate(call.arguments[0], at)
            cost += more
            if nodes is not None:
                cost += self._sorting(nodes)
                if call.name in ("sum", "id"):
                    cost += self._texts(nodes, nodes.total)
            if call.name != "id":
                return cost, None
            # The element of each name is compared with those of the names before.
            each = min(self._nodes, self._names_in(call.arguments[0]))
            named = at.times * each
            return cost + _PAIR * named * each, _Nodes(each, named, at.times, in_order=False)
        cost += sum(self._value(argument, at) for argument in call.arguments)
        if not call.arguments:
            cost += self._texts(_Nodes(1.0, at.times, at.same), at.times)
        if call.name in _SEARCHES:
            cost += self._searching(call, at)
        return cost, None

    def _names_in(self, expression: Expression) -> float:
        return len(expression.value) if isinstance(expression, Literal) else self._nodes

    def _searching(self, call: FunctionCall, at: _Contexts) -> float:
        sought = call.arguments[1]
        length = 0.0 if self._rewritten else self._bytes
        if value_type(sought) in (ValueType.NUMBER, ValueType.BOOLEAN):
            length = _VALUE
        elif isinstance(sought, Literal) and not (self._rewritten and len(sought.value) > SHORT):
            length = max(len(sought.value), self._literal)
        if not length:
            return 0.0
        _, searched = self._evaluate(call.arguments[0], at)
        if searched is None:
            searched = _Nodes(1.0, at.times, at.times)
        levels = 1.0 if searched.are_leaves else self._depth
        return min(at.times, searched.same * levels) * self._bytes * length * _CHARACTER


#: What a step becomes by which one to any descendants is left out.
_DOWNWARDS = {
    Axis.CHILD: Axis.DESCENDANT,
    Axis.DESCENDANT: Axis.DESCENDANT,
    Axis.SELF: Axis.DESCENDANT_OR_SELF,
    Axis.DESCENDANT_OR_SELF: Axis.DESCENDANT_OR_SELF,
}


def _finds_leaves(step: Step) -> bool:
    return step.axis is Axis.ATTRIBUTE or step.test == KindTest("text")


def _near(step: Step) -> float | None:
    """At which place among its siblings the only one is that the step finds, if that is known."""
    if step.axis not in _SIBLINGS or len(step.predicates) != 1:
        return None
    place, test = step.predicates[0], step.test
    is_any = test == _ANY_NODE or test == _ANY_ELEMENT
    return place.value if is_any and isinstance(place, Number) and place.value >= 1 else None


def _is_skipped(steps: tuple[Step, ...], place: int) -> bool:
    """Whether libxml2 makes one step of this one, which is what `//` means, and the next."""
    step = steps[place]
    if step.axis is not Axis.DESCENDANT_OR_SELF or step.test != _ANY_NODE or step.predicates:
        return False
    if place + 1 == len(steps):
        return False
    following = steps[place + 1]
    return following.axis in _DOWNWARDS and not following.predicates
