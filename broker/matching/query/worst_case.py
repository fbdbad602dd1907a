"""Upper bound of libxml2's work for a query, on any document of a given size (checklist F13).

It assumes the worst: name tests keep every node, all elements are siblings, one element has all
text. The unit is one visited node, 10 ns. Besides following axes, libxml2 (`xpath.c` of 2.14, and
measurements) compares each node found from several start nodes with all found before, also in
unions; sorts a node-set for a function and in brackets, walking between siblings, and from each
comment, instruction or text back to the element before; and copies the text of a node on every use.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs

from broker.matching.document_limits import LIBXML2_MAX_DEPTH, SHALLOW_DEPTH
from broker.matching.query import tree
from broker.matching.query.extension_function import MAX_LIBXML2_SEARCHED, SEARCH_FUNCTIONS
from broker.matching.query.value_type import value_type

#: Comparing two nodes: libxml2 reads both, and they are scattered in memory.
_PAIR_COST = 0.5
#: Comparing a character of a text with one of a substring.
_CHARACTER_COST = 0.15
#: Bytes copied in the time of one visit.
_BYTES_COPIED_PER_VISIT = 8
#: Creating a value from a node or a text.
_VALUE_COST = 10.0
#: Creating the node-set of a path.
_PATH_COST = 6.0
#: A query with at most so many visits in the worst case is cheap: 2.5 ms.
CHEAP_VISITS = 250_000.0
#: Maximum bytes per node in the documents of one size class.
BYTES_PER_NODE = 32
#: Attributes per element (`DocumentLimits`).
_MAX_ATTRIBUTES = 256

_SIDEWAYS_AXES = tree.SIBLING_AXES | {tree.Axis.FOLLOWING, tree.Axis.PRECEDING}
_DUPLICATE_FREE_AXES = frozenset(
    {tree.Axis.CHILD, tree.Axis.ATTRIBUTE, tree.Axis.NAMESPACE, tree.Axis.SELF}
)
_ANY_ELEMENT = tree.NameTest(None, None)


class WorstCost(NamedTuple):
    """Visits on a document of the maximum depth, and on one of the depth `SHALLOW_DEPTH`; a cheap
    query has the maximum in both."""

    deep: float
    shallow: float


@attrs.frozen
class DocumentSize:
    """Size of a document: nodes of all kinds, levels of elements, bytes."""

    nodes: int
    depth: int
    bytes: int
    instructions: int = -1
    """Processing instructions and comments; -1: unknown, so perhaps all nodes."""


@attrs.frozen
class _Count:
    """Number of evaluations of an expression, in `total` and for one node (`per_node`)."""

    total: float
    per_node: float


_ONE_CONTEXT = _Count(1.0, 1.0)


@attrs.frozen
class _Sets:
    """The node-sets of an expression, one for each context.

    `each` is the size of one, `total` that of all. A node is in at most `per_node` of them.
    `in_order`: libxml2 finds the nodes in document order. `are_leaves`: they are attributes or
    texts. `are_walked`: they may be comments, instructions or texts.
    """

    each: float
    total: float
    per_node: float
    in_order: bool = True
    are_leaves: bool = False
    are_walked: bool = False


def worst_case_cost(
    expression: tree.Expression, size: DocumentSize, literal_length: int = 0
) -> float:
    """Upper bound for one evaluation. `literal_length` is the minimum length of literals."""
    return _WorstCaseModel(size, literal_length).truth_cost(expression)


class WorstCaseCosts:
    """Upper bounds for queries that differ in literals only, by document size."""

    def __init__(self, expression: tree.Expression) -> None:
        self._expression = expression
        self._cache: dict[tuple[int, int], WorstCost] = {}

    def cost_on(self, nodes: int, literal_length: int = 0) -> WorstCost:
        """Bound for documents with so many nodes, of at most `BYTES_PER_NODE` bytes on average.

        `literal_length` is the length of the query's longest literal.
        """
        key = nodes, literal_length.bit_length()
        found = self._cache.get(key)
        if found is None:
            length = 1 << key[1] if literal_length else 0

            def cost_at(depth: int) -> float:
                size = DocumentSize(nodes, min(nodes, depth), nodes * BYTES_PER_NODE)
                return worst_case_cost(self._expression, size, length)

            deep = cost_at(LIBXML2_MAX_DEPTH)
            shallow = deep if deep <= CHEAP_VISITS else cost_at(SHALLOW_DEPTH)
            found = self._cache[key] = WorstCost(deep, shallow)
        return found


class _WorstCaseModel:
    def __init__(self, size: DocumentSize, literal_length: int) -> None:
        self._nodes = float(size.nodes)
        self._depth = float(size.depth)
        self._bytes = float(size.bytes)
        self._min_literal_length = literal_length
        # Only comments and instructions are beside texts without an element between them.
        unknown = size.instructions < 0
        self._run = self._nodes if unknown else min(self._nodes, 2.0 * size.instructions + 2.0)

    def truth_cost(self, expression: tree.Expression) -> float:
        """Cost of the query, as an argument of `boolean`."""
        cost, nodes = self._cost_and_nodes(expression, _ONE_CONTEXT)
        return cost + (0.0 if nodes is None else self._walk_cost(nodes))

    def cost(self, expression: tree.Expression, count: _Count) -> float:
        return self._cost_and_nodes(expression, count)[0]

    def _cost_and_nodes(
        self, expression: tree.Expression, count: _Count
    ) -> tuple[float, _Sets | None]:
        match expression:
            case tree.Number() | tree.Literal() | tree.Variable():
                return count.total, None
            case tree.Path():
                return self._path_cost(expression, count)
            case tree.Filter(primary=primary, predicates=predicates):
                cost, nodes = self._node_set_cost(primary, count)
                cost += self._sort_cost(nodes)
                return cost + self._predicates_cost(
                    predicates, _Count(nodes.total, count.total)
                ), nodes
            case tree.Negation(operand=operand):
                return self._value_cost(operand, count) + count.total, None
            case tree.Chain(operator="|", operands=operands):
                return self._union_cost(operands, count)
            case tree.Chain(operands=operands):
                return count.total + sum(self.cost(operand, count) for operand in operands), None
            case tree.Binary():
                return self._binary_cost(expression, count), None
            case tree.FunctionCall():
                return self._call_cost(expression, count)

    def _node_set_cost(self, expression: tree.Expression, count: _Count) -> tuple[float, _Sets]:
        cost, nodes = self._cost_and_nodes(expression, count)
        assert nodes is not None, "the parser checks for node-sets"
        return cost, nodes

    # -- node-sets

    def _union_cost(
        self, operands: tuple[tree.Expression, ...], count: _Count
    ) -> tuple[float, _Sets]:
        cost, united = self._node_set_cost(operands[0], count)
        for operand in operands[1:]:
            more, nodes = self._node_set_cost(operand, count)
            cost += more + _PAIR_COST * min(united.total * nodes.each, united.each * nodes.total)
            united = _Sets(
                min(united.each + nodes.each, self._nodes),
                united.total + nodes.total,
                min(united.per_node + nodes.per_node, count.total),
                in_order=False,
                are_walked=united.are_walked or nodes.are_walked,
            )
        return cost + count.total, united

    def _sort_cost(self, nodes: _Sets) -> float:
        if nodes.each <= 1:
            return nodes.total
        each = self._depth if nodes.in_order else _PAIR_COST * self._nodes
        return nodes.total * each + self._walk_cost(nodes)

    def _walk_cost(self, nodes: _Sets) -> float:
        return nodes.total * self._run if nodes.are_walked and nodes.each > 1 else 0.0

    def _path_cost(self, path: tree.Path, count: _Count) -> tuple[float, _Sets]:
        if isinstance(path.start, tree.PathStart):
            fixed = path.start is not tree.PathStart.CONTEXT
            same = count.total if fixed else count.per_node
            cost, nodes = _PATH_COST * count.total, _Sets(1.0, count.total, same)
        else:
            cost, nodes = self._node_set_cost(path.start, count)
            fixed = False
        steps = path.steps
        for place, step in enumerate(steps):
            if fixed and not place and step.axis is tree.Axis.CHILD:
                # A document has one root element.
                more = self._predicates_cost(step.predicates, _Count(count.total, count.total))
            elif _is_merged_with_next(steps, place):
                continue
            else:
                if place and _is_merged_with_next(steps, place - 1):
                    step = attrs.evolve(step, axis=_MERGED_AXES[step.axis])
                more, nodes = self._step_cost(step, nodes, count.total)
            cost += more
        return cost, nodes

    def _step_cost(self, step: tree.Step, origins: _Sets, times: float) -> tuple[float, _Sets]:
        axis = step.axis
        visited, each, same = self._step_extent(step, origins, times)
        total = visited
        if axis not in _DUPLICATE_FREE_AXES:
            total = min(visited, times * self._nodes)
        several = origins.each > 1
        merges = several and axis not in _DUPLICATE_FREE_AXES
        in_order = origins.in_order and axis not in tree.REVERSE_AXES
        if several:
            in_order = in_order and axis in (tree.Axis.SELF, tree.Axis.ATTRIBUTE)
        cost = visited + (_PAIR_COST * visited * each / 2 if merges else 0.0)
        # A predicate sees a node each time it is found, before duplicates are removed.
        count = _Count(visited, visited if merges else same)
        if any(isinstance(predicate, tree.Number) for predicate in step.predicates):
            # One position per start node.
            each, total = min(each, origins.each), min(total, origins.total)
        more = self._predicates_cost(step.predicates, count)
        kinds = _finds_leaves(step), _may_be_walked(step)
        return cost + more, _Sets(each, total, same, in_order, *kinds)

    def _step_extent(
        self, step: tree.Step, origins: _Sets, times: float
    ) -> tuple[float, float, float]:
        """Return nodes visited in all, found for one context, and sets per node: maxima."""
        limit, total, same = self._nodes, origins.total, origins.per_node
        axis = step.axis
        if axis is tree.Axis.SELF:
            return total, origins.each, same
        if axis is tree.Axis.PARENT:
            return total, origins.each, times
        if axis in tree.ANCESTOR_AXES:
            return total * self._depth, min(limit, origins.each * self._depth), times
        if axis in _SIDEWAYS_AXES:
            place = _sibling_position(step)
            if place is not None:
                # All siblings together pass one node at most so many times.
                return min(total * limit, same * place * limit), origins.each, times
            return total * limit, limit, times
        if axis in tree.DESCENDANT_AXES:
            visited = min(total * limit, same * limit * self._depth)
            return visited, limit, min(times, same * self._depth)
        if axis is tree.Axis.ATTRIBUTE:
            visited = min(same * limit, total * _MAX_ATTRIBUTES)
            if isinstance(step.test, tree.NameTest) and step.test.local is not None:
                return visited, origins.each, same
            return visited, min(limit, origins.each * _MAX_ATTRIBUTES), same
        if axis is tree.Axis.NAMESPACE:
            return total * limit, limit, same
        return min(same * limit, total * limit), limit, same

    def _predicates_cost(self, predicates: tuple[tree.Expression, ...], count: _Count) -> float:
        return sum(self._truth_cost(predicate, count) + count.total for predicate in predicates)

    def _truth_cost(self, predicate: tree.Expression, count: _Count) -> float:
        if value_type(predicate) is tree.ValueType.STRING:
            return self._value_cost(predicate, count)
        return self.cost(predicate, count)

    # -- values

    def _value_cost(self, expression: tree.Expression, count: _Count) -> float:
        cost, nodes = self._cost_and_nodes(expression, count)
        if nodes is None:
            return cost
        return (
            cost + self._sort_cost(nodes) + self._texts_cost(nodes, min(nodes.total, count.total))
        )

    def _texts_cost(self, nodes: _Sets, number: float) -> float:
        # A text is part of all elements around it, but of one attribute only.
        whole, levels = self._bytes / _BYTES_COPIED_PER_VISIT, 1.0
        if not nodes.are_leaves:
            whole, levels = whole + self._nodes, self._depth
        return number * _VALUE_COST + min(number, nodes.per_node * levels) * whole

    def _binary_cost(self, node: tree.Binary, count: _Count) -> float:
        cost = count.total
        sets: list[_Sets] = []
        for side in (node.left, node.right):
            more, nodes = self._cost_and_nodes(side, count)
            cost += more
            if nodes is not None:
                sets.append(nodes)
                cost += self._texts_cost(nodes, nodes.total)
        if len(sets) == 2:
            left, right = sets
            cost += _PAIR_COST * min(left.total * right.each, left.each * right.total)
        return cost

    def _call_cost(self, call: tree.FunctionCall, count: _Count) -> tuple[float, _Sets | None]:
        cost = count.total * _VALUE_COST
        if call.name == "count":
            return cost + self.cost(call.arguments[0], count), None
        if call.name in ("boolean", "not", "sum", "id"):
            more, nodes = self._cost_and_nodes(call.arguments[0], count)
            cost += more
            if nodes is not None:
                cost += self._sort_cost(nodes)
                if call.name in ("sum", "id"):
                    cost += self._texts_cost(nodes, nodes.total)
            if call.name != "id":
                return cost, None
            # Each element found is compared with all found before.
            each = min(self._nodes, self._max_ids(call.arguments[0]))
            named = count.total * each
            return cost + _PAIR_COST * named * each, _Sets(each, named, count.total, in_order=False)
        cost += sum(self._value_cost(argument, count) for argument in call.arguments)
        if not call.arguments:
            cost += self._texts_cost(_Sets(1.0, count.total, count.per_node), count.total)
        if call.name in SEARCH_FUNCTIONS:
            cost += self._search_cost(call, count)
        return cost, None

    def _max_ids(self, expression: tree.Expression) -> float:
        return len(expression.value) if isinstance(expression, tree.Literal) else self._nodes

    def _search_cost(self, call: tree.FunctionCall, count: _Count) -> float:
        substring = call.arguments[1]
        if value_type(substring) in (tree.ValueType.NUMBER, tree.ValueType.BOOLEAN):
            length = _VALUE_COST
        elif isinstance(substring, tree.Literal) and len(substring.value) <= MAX_LIBXML2_SEARCHED:
            length = max(len(substring.value), self._min_literal_length)
        else:
            # An extension function searches in linear time.
            return 0.0
        _, searched = self._cost_and_nodes(call.arguments[0], count)
        if searched is None:
            searched = _Sets(1.0, count.total, count.total)
        levels = 1.0 if searched.are_leaves else self._depth
        return min(count.total, searched.per_node * levels) * self._bytes * length * _CHARACTER_COST


#: Axis of the merged step after `descendant-or-self::node()`, by the step's own axis.
_MERGED_AXES = {
    tree.Axis.CHILD: tree.Axis.DESCENDANT,
    tree.Axis.DESCENDANT: tree.Axis.DESCENDANT,
    tree.Axis.SELF: tree.Axis.DESCENDANT_OR_SELF,
    tree.Axis.DESCENDANT_OR_SELF: tree.Axis.DESCENDANT_OR_SELF,
}


def _finds_leaves(step: tree.Step) -> bool:
    return step.axis is tree.Axis.ATTRIBUTE or step.test == tree.KindTest("text")


def _may_be_walked(step: tree.Step) -> bool:
    elements_only = tree.Axis.PARENT, tree.Axis.ANCESTOR
    no_siblings = tree.Axis.ATTRIBUTE, tree.Axis.NAMESPACE
    return isinstance(step.test, tree.KindTest) and step.axis not in elements_only + no_siblings


def _sibling_position(step: tree.Step) -> float | None:
    """Position of the only sibling that the step finds, if it is known statically."""
    if step.axis not in tree.SIBLING_AXES or len(step.predicates) != 1:
        return None
    place, test = step.predicates[0], step.test
    is_any = test == tree.ANY_NODE or test == _ANY_ELEMENT
    return place.value if is_any and isinstance(place, tree.Number) and place.value >= 1 else None


def _is_merged_with_next(steps: tuple[tree.Step, ...], place: int) -> bool:
    """Return True if libxml2 merges this step, a `//`, with the next."""
    if not tree.is_any_descendant(steps[place]) or place + 1 == len(steps):
        return False
    following = steps[place + 1]
    return following.axis in _MERGED_AXES and not following.predicates
