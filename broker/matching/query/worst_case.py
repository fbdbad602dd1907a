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
from broker.matching.query.extension_function import MAX_LIBXML2_SEARCHED
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
    Path,
    PathStart,
    Step,
    ValueType,
    Variable,
)
from broker.matching.query.value_type import value_type

#: Telling two nodes apart: libxml2 looks into both, and they are all over the memory.
_PAIR_COST = 0.5
#: A character of a text compared with one that is looked for.
_CHARACTER_COST = 0.15
#: Bytes that are copied while a node is visited.
_BYTES_COPIED_PER_VISIT = 8
#: Making a value of a node or a text.
_VALUE_COST = 10.0
#: Bytes for each node, at limit, in the documents of one size.
BYTES_PER_NODE = 32
#: Attributes of one element (`DocumentLimits`).
_MAX_ATTRIBUTES = 256

_SIBLING_AXES = frozenset({Axis.FOLLOWING_SIBLING, Axis.PRECEDING_SIBLING})
_SIDEWAYS_AXES = _SIBLING_AXES | {Axis.FOLLOWING, Axis.PRECEDING}
_DESCENDANT_AXES = frozenset({Axis.DESCENDANT, Axis.DESCENDANT_OR_SELF})
_ANCESTOR_AXES = frozenset({Axis.ANCESTOR, Axis.ANCESTOR_OR_SELF})
_REVERSE_AXES = _ANCESTOR_AXES | {Axis.PRECEDING, Axis.PRECEDING_SIBLING}
_DUPLICATE_FREE_AXES = frozenset({Axis.CHILD, Axis.ATTRIBUTE, Axis.NAMESPACE, Axis.SELF})
_SEARCH_FUNCTIONS = frozenset({"contains", "substring-before", "substring-after", "translate"})
_ANY_NODE = KindTest("node")
_ANY_ELEMENT = NameTest(None, None)


class WorstCost(NamedTuple):
    """Visits on a document that is as deep as documents may be, and on one that is `SHALLOW`."""

    deep: float
    shallow: float


@attrs.frozen
class DocumentSize:
    """How large a document is: its nodes of all kinds, the levels of its elements, its bytes."""

    nodes: int
    depth: int
    bytes: int


@attrs.frozen
class _ContextCount:
    """How often an expression is evaluated, and how often of these for one and the same node."""

    total: float
    per_node: float


_ONE_CONTEXT = _ContextCount(1.0, 1.0)


@attrs.frozen
class _NodeSets:
    """Node-sets of an expression, one for each of its contexts.

    `each` is the size of one, `total` of all together; a node is in `same` of them. `in_order`:
    libxml2 finds the nodes in document order. `are_leaves`: they are attributes or texts.
    """

    set_size: float
    total: float
    sets_per_node: float
    in_order: bool = True
    are_leaves: bool = False


def worst_case_cost(
    expression: Expression,
    size: DocumentSize,
    *,
    rewritten: bool = True,
    min_literal_length: int = 0,
) -> float:
    """What evaluating the expression once may cost at most.

    `rewritten`: long searches in texts are made by functions of ours (see `texts.py`), whose work
    is bounded. `literal` is the length that literals are taken for which are shorter.
    """
    return _WorstCaseModel(size, rewritten, min_literal_length).cost(expression, _ONE_CONTEXT)


class WorstCaseCosts:
    """What queries cost at worst that are one expression but for literals, by size of documents.

    Few sizes serve all documents, and few lengths all literals, so all is remembered.
    """

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self._cache: dict[tuple[int, int], WorstCost] = {}

    def cost_on(self, nodes: int, min_literal_length: int = 0) -> WorstCost:
        """On documents of so many nodes, and of `BYTES_PER_NODE` for each.

        `literal` is the length of a query's longest literal in the place of one of these.
        """
        key = nodes, min_literal_length.bit_length()
        found = self._cache.get(key)
        if found is None:
            deep, shallow = (
                worst_case_cost(
                    self._expression,
                    DocumentSize(nodes, min(nodes, depth), nodes * BYTES_PER_NODE),
                    min_literal_length=1 << key[1] if min_literal_length else 0,
                )
                for depth in (LIBXML2_MAX_DEPTH, SHALLOW)
            )
            found = self._cache[key] = WorstCost(deep, shallow)
        return found


class _WorstCaseModel:
    def __init__(self, size: DocumentSize, rewritten: bool, min_literal_length: int) -> None:
        self._nodes = float(size.nodes)
        self._depth = float(size.depth)
        self._bytes = float(size.bytes)
        self._rewritten = rewritten
        self._min_literal_length = min_literal_length

    def cost(self, expression: Expression, contexts: _ContextCount) -> float:
        """Of all evaluations together."""
        return self._cost_and_nodes(expression, contexts)[0]

    def _cost_and_nodes(
        self, expression: Expression, contexts: _ContextCount
    ) -> tuple[float, _NodeSets | None]:
        match expression:
            case Number() | Literal() | Variable():
                return contexts.total, None
            case Path():
                return self._path_cost(expression, contexts)
            case Filter(primary=primary, predicates=predicates):
                cost, nodes = self._node_set_cost(primary, contexts)
                cost += self._sort_cost(nodes)
                return cost + self._predicates_cost(
                    predicates, _ContextCount(nodes.total, contexts.total)
                ), nodes
            case Negation(operand=operand):
                return self._value_cost(operand, contexts) + contexts.total, None
            case Chain(operator="|", operands=operands):
                return self._union_cost(operands, contexts)
            case Chain(operands=operands):
                return contexts.total + sum(
                    self.cost(operand, contexts) for operand in operands
                ), None
            case Binary():
                return self._binary_cost(expression, contexts), None
            case FunctionCall():
                return self._call_cost(expression, contexts)

    def _node_set_cost(
        self, expression: Expression, contexts: _ContextCount
    ) -> tuple[float, _NodeSets]:
        cost, nodes = self._cost_and_nodes(expression, contexts)
        assert nodes is not None, "the parser lets nothing else be a node-set"
        return cost, nodes

    # ---------------------------------------------------------------- node-sets

    def _union_cost(
        self, operands: tuple[Expression, ...], contexts: _ContextCount
    ) -> tuple[float, _NodeSets]:
        cost, united = self._node_set_cost(operands[0], contexts)
        for operand in operands[1:]:
            more, nodes = self._node_set_cost(operand, contexts)
            cost += more + _PAIR_COST * min(
                united.total * nodes.set_size, united.set_size * nodes.total
            )
            united = _NodeSets(
                min(united.set_size + nodes.set_size, self._nodes),
                united.total + nodes.total,
                min(united.sets_per_node + nodes.sets_per_node, contexts.total),
                in_order=False,
            )
        return cost + contexts.total, united

    def _sort_cost(self, nodes: _NodeSets) -> float:
        if nodes.set_size <= 1:
            return nodes.total
        return nodes.total * (self._depth if nodes.in_order else _PAIR_COST * self._nodes)

    def _path_cost(self, path: Path, contexts: _ContextCount) -> tuple[float, _NodeSets]:
        if isinstance(path.start, PathStart):
            fixed = path.start is not PathStart.CONTEXT
            cost, nodes = (
                contexts.total,
                _NodeSets(1.0, contexts.total, contexts.total if fixed else contexts.per_node),
            )
        else:
            cost, nodes = self._node_set_cost(path.start, contexts)
            fixed = False
        steps = path.steps
        for place, step in enumerate(steps):
            if fixed and not place and step.axis is Axis.CHILD:
                # A document has one element.
                more = self._predicates_cost(
                    step.predicates, _ContextCount(contexts.total, contexts.total)
                )
            elif _is_merged_with_next(steps, place):
                continue
            else:
                if place and _is_merged_with_next(steps, place - 1):
                    step = attrs.evolve(step, axis=_MERGED_AXES[step.axis])
                more, nodes = self._step_cost(step, nodes, contexts.total)
            cost += more
        return cost, nodes

    def _step_cost(self, step: Step, origins: _NodeSets, times: float) -> tuple[float, _NodeSets]:
        axis = step.axis
        visited, each, same = self._step_extent(step, origins, times)
        total = visited
        if axis not in _DUPLICATE_FREE_AXES:
            total = min(visited, times * self._nodes)
        several = origins.set_size > 1
        merges = several and axis not in _DUPLICATE_FREE_AXES
        in_order = origins.in_order and axis not in _REVERSE_AXES
        if several:
            in_order = in_order and axis in (Axis.SELF, Axis.ATTRIBUTE)
        cost = visited + (_PAIR_COST * visited * each / 2 if merges else 0.0)
        # A node is a context as often as it is found, which is before it is compared.
        contexts = _ContextCount(visited, visited if merges else same)
        if any(isinstance(predicate, Number) for predicate in step.predicates):
            # One place for each node that the step starts from.
            each, total = min(each, origins.set_size), min(total, origins.total)
        more = self._predicates_cost(step.predicates, contexts)
        return cost + more, _NodeSets(each, total, same, in_order, _finds_leaves(step))

    def _step_extent(
        self, step: Step, origins: _NodeSets, times: float
    ) -> tuple[float, float, float]:
        """What a step visits in all and finds for one context at limit, and one node how often."""
        limit, total, same = self._nodes, origins.total, origins.sets_per_node
        axis = step.axis
        if axis is Axis.SELF:
            return total, origins.set_size, same
        if axis is Axis.PARENT:
            return total, origins.set_size, times
        if axis in _ANCESTOR_AXES:
            return total * self._depth, min(limit, origins.set_size * self._depth), times
        if axis in _SIDEWAYS_AXES:
            place = _sibling_position(step)
            if place is not None:
                # From all siblings together no node is passed by more often than that.
                return min(total * limit, same * place * limit), origins.set_size, times
            return total * limit, limit, times
        if axis in _DESCENDANT_AXES:
            visited = min(total * limit, same * limit * self._depth)
            return visited, limit, min(times, same * self._depth)
        if axis is Axis.ATTRIBUTE:
            visited = min(same * limit, total * _MAX_ATTRIBUTES)
            if isinstance(step.test, NameTest) and step.test.local is not None:
                return visited, origins.set_size, same
            return visited, min(limit, origins.set_size * _MAX_ATTRIBUTES), same
        if axis is Axis.NAMESPACE:
            return total * limit, limit, same
        return min(same * limit, total * limit), limit, same

    def _predicates_cost(
        self, predicates: tuple[Expression, ...], contexts: _ContextCount
    ) -> float:
        return sum(
            self._truth_cost(predicate, contexts) + contexts.total for predicate in predicates
        )

    def _truth_cost(self, predicate: Expression, contexts: _ContextCount) -> float:
        if value_type(predicate) is ValueType.STRING:
            return self._value_cost(predicate, contexts)
        return self.cost(predicate, contexts)

    # ---------------------------------------------------------------- values

    def _value_cost(self, expression: Expression, contexts: _ContextCount) -> float:
        """Evaluating an expression and making a text or a number of it."""
        cost, nodes = self._cost_and_nodes(expression, contexts)
        if nodes is None:
            return cost
        return (
            cost
            + self._sort_cost(nodes)
            + self._texts_cost(nodes, min(nodes.total, contexts.total))
        )

    def _texts_cost(self, nodes: _NodeSets, number: float) -> float:
        """The texts of so many of the nodes."""
        # A text is in all elements around it, and in one attribute.
        whole, levels = self._bytes / _BYTES_COPIED_PER_VISIT, 1.0
        if not nodes.are_leaves:
            whole, levels = whole + self._nodes, self._depth
        return number * _VALUE_COST + min(number, nodes.sets_per_node * levels) * whole

    def _binary_cost(self, node: Binary, contexts: _ContextCount) -> float:
        cost = contexts.total
        sets: list[_NodeSets] = []
        for side in (node.left, node.right):
            more, nodes = self._cost_and_nodes(side, contexts)
            cost += more
            if nodes is not None:
                sets.append(nodes)
                cost += self._texts_cost(nodes, nodes.total)
        if len(sets) == 2:
            left, right = sets
            cost += _PAIR_COST * min(left.total * right.set_size, left.set_size * right.total)
        return cost

    def _call_cost(
        self, call: FunctionCall, contexts: _ContextCount
    ) -> tuple[float, _NodeSets | None]:
        cost = contexts.total * _VALUE_COST
        if call.name == "count":
            return cost + self.cost(call.arguments[0], contexts), None
        if call.name in ("boolean", "not", "sum", "id"):
            more, nodes = self._cost_and_nodes(call.arguments[0], contexts)
            cost += more
            if nodes is not None:
                cost += self._sort_cost(nodes)
                if call.name in ("sum", "id"):
                    cost += self._texts_cost(nodes, nodes.total)
            if call.name != "id":
                return cost, None
            # The element of each name is compared with those of the names before.
            each = min(self._nodes, self._max_ids(call.arguments[0]))
            named = contexts.total * each
            return cost + _PAIR_COST * named * each, _NodeSets(
                each, named, contexts.total, in_order=False
            )
        cost += sum(self._value_cost(argument, contexts) for argument in call.arguments)
        if not call.arguments:
            cost += self._texts_cost(
                _NodeSets(1.0, contexts.total, contexts.per_node), contexts.total
            )
        if call.name in _SEARCH_FUNCTIONS:
            cost += self._search_cost(call, contexts)
        return cost, None

    def _max_ids(self, expression: Expression) -> float:
        return len(expression.value) if isinstance(expression, Literal) else self._nodes

    def _search_cost(self, call: FunctionCall, contexts: _ContextCount) -> float:
        sought = call.arguments[1]
        length = 0.0 if self._rewritten else self._bytes
        if value_type(sought) in (ValueType.NUMBER, ValueType.BOOLEAN):
            length = _VALUE_COST
        elif isinstance(sought, Literal) and not (
            self._rewritten and len(sought.value) > MAX_LIBXML2_SEARCHED
        ):
            length = max(len(sought.value), self._min_literal_length)
        if not length:
            return 0.0
        _, searched = self._cost_and_nodes(call.arguments[0], contexts)
        if searched is None:
            searched = _NodeSets(1.0, contexts.total, contexts.total)
        levels = 1.0 if searched.are_leaves else self._depth
        return (
            min(contexts.total, searched.sets_per_node * levels)
            * self._bytes
            * length
            * _CHARACTER_COST
        )


#: What a step becomes by which one to any descendants is left out.
_MERGED_AXES = {
    Axis.CHILD: Axis.DESCENDANT,
    Axis.DESCENDANT: Axis.DESCENDANT,
    Axis.SELF: Axis.DESCENDANT_OR_SELF,
    Axis.DESCENDANT_OR_SELF: Axis.DESCENDANT_OR_SELF,
}


def _finds_leaves(step: Step) -> bool:
    return step.axis is Axis.ATTRIBUTE or step.test == KindTest("text")


def _sibling_position(step: Step) -> float | None:
    """At which place among its siblings the only one is that the step finds, if that is known."""
    if step.axis not in _SIBLING_AXES or len(step.predicates) != 1:
        return None
    place, test = step.predicates[0], step.test
    is_any = test == _ANY_NODE or test == _ANY_ELEMENT
    return place.value if is_any and isinstance(place, Number) and place.value >= 1 else None


def _is_merged_with_next(steps: tuple[Step, ...], place: int) -> bool:
    """Whether libxml2 makes one step of this one, which is what `//` means, and the next."""
    step = steps[place]
    if step.axis is not Axis.DESCENDANT_OR_SELF or step.test != _ANY_NODE or step.predicates:
        return False
    if place + 1 == len(steps):
        return False
    following = steps[place + 1]
    return following.axis in _MERGED_AXES and not following.predicates
