"""Static estimate of a query's cost on one document (checklist F13).

The unit is one visited node, about 10 ns. The model document has 1,000 elements. Steps visit the
neighbourhood (10 nodes), a tenth of the document, or all of it. A name test keeps a quarter. A
predicate costs its expression for each node; comparing node-sets costs the product of their sizes.
The estimate limits a query's shape; its run time is measured as well.
"""

from __future__ import annotations

import attrs

from broker.matching.query import tree
from broker.matching.query.value_type import value_type

MODEL_NODES = 1000
_NEARBY_NODES = 10
_TEXT_COST = 10
_DOCUMENT_AXES = frozenset(
    {tree.Axis.DESCENDANT, tree.Axis.DESCENDANT_OR_SELF, tree.Axis.FOLLOWING, tree.Axis.PRECEDING}
)
_UPWARD_AXES = tree.ANCESTOR_AXES | {tree.Axis.PARENT}
_SINGLE_NODE_AXES = frozenset({tree.Axis.SELF, tree.Axis.PARENT})


@attrs.frozen
class CostEstimate:
    """Estimated `cost` in visited nodes, and the most expensive step (None without steps)."""

    cost: float
    costliest_step: tree.Step | None
    costliest_step_cost: float


def estimate_cost(
    expression: tree.Expression, nodes: int = MODEL_NODES, depth: int = _NEARBY_NODES
) -> CostEstimate:
    """Estimate one evaluation on a document with `nodes` elements and `depth` levels."""
    model = _CostModel(float(nodes), float(depth))
    cost = model.cost(expression, 1.0)
    return CostEstimate(cost, model.costliest_step, model.costliest_step_cost)


class _CostModel:
    """Cost functions; `times` is the number of evaluations, included in every returned cost."""

    def __init__(self, nodes: float, depth: float) -> None:
        self._nodes = nodes
        self._depth = depth
        self.costliest_step: tree.Step | None = None
        self.costliest_step_cost = 0.0

    def cost(self, expression: tree.Expression, times: float) -> float:
        return self._cost_and_size(expression, times)[0]

    def _cost_and_size(self, expression: tree.Expression, times: float) -> tuple[float, float]:
        """Return the cost of all evaluations, and the number of nodes that one of them returns."""
        match expression:
            case tree.Number() | tree.Literal() | tree.Variable():
                return times, 0.0
            case tree.Path():
                return self._path_cost(expression, times)
            case tree.Filter(primary=primary, predicates=predicates):
                cost, size = self._cost_and_size(primary, times)
                more, size = self._predicates_cost(predicates, size, times)
                return cost + more, size
            case tree.Negation(operand=operand):
                return self._value_cost(operand, times) + times, 0.0
            case tree.Chain(operands=operands, operator=operator):
                results = [self._cost_and_size(operand, times) for operand in operands]
                size = min(self._nodes, sum(s for _, s in results)) if operator == "|" else 0.0
                return sum(c for c, _ in results) + times * (1 + size), size
            case tree.Binary(left=left, right=right):
                return self._binary_cost(left, right, times), 0.0
            case tree.FunctionCall():
                return self._call_cost(expression, times)

    def _binary_cost(self, left: tree.Expression, right: tree.Expression, times: float) -> float:
        left_cost, left_size = self._cost_and_size(left, times)
        right_cost, right_size = self._cost_and_size(right, times)
        pairs = max(left_size, 1.0) * max(right_size, 1.0)
        return left_cost + right_cost + times * pairs

    def _call_cost(self, call: tree.FunctionCall, times: float) -> tuple[float, float]:
        size = 0.0
        if call.name in ("count", "sum", "boolean", "not"):
            cost, _ = self._cost_and_size(call.arguments[0], times)
        elif call.name == "translate":
            cost = sum(self._value_cost(argument, times) for argument in call.arguments)
            alphabet = call.arguments[1]
            length = len(alphabet.value) if isinstance(alphabet, tree.Literal) else 100
            cost += self._text_cost(call.arguments[0]) * times * length / 10
        else:
            cost = sum(self._value_cost(argument, times) for argument in call.arguments)
            if not call.arguments:
                cost += _TEXT_COST * times
        if call.name == "id":
            size = float(_NEARBY_NODES)
        return cost + times, size

    def _value_cost(self, expression: tree.Expression, times: float) -> float:
        cost, _ = self._cost_and_size(expression, times)
        return cost + self._text_cost(expression) * times

    def _text_cost(self, expression: tree.Expression) -> float:
        if value_type(expression) is not tree.ValueType.NODE_SET:
            return 1.0
        if isinstance(expression, tree.Path) and expression.start is tree.PathStart.DOCUMENT:
            if not expression.steps or expression.steps[-1].test == tree.KindTest("node"):
                return self._nodes
        return _TEXT_COST

    def _path_cost(self, path: tree.Path, times: float) -> tuple[float, float]:
        cost, size = 0.0, 1.0
        wide = path.start in (tree.PathStart.DOCUMENT, tree.PathStart.ENVELOPE)
        if not isinstance(path.start, tree.PathStart):
            cost, size = self._cost_and_size(path.start, times)
        for i, step in enumerate(path.steps):
            if i == 0 and wide and step.axis is tree.Axis.CHILD:
                more, size = self._predicates_cost(step.predicates, 1.0, times)
                step_cost = times + more
            else:
                step_cost, size = self._step_cost(step, size, wide, times)
                wide = step.axis in _UPWARD_AXES
            cost += step_cost
        return cost + times, size

    def _step_cost(
        self, step: tree.Step, size: float, wide: bool, times: float
    ) -> tuple[float, float]:
        visited = size * self._fan_out(step.axis, wide)
        if step.axis in (tree.Axis.CHILD, tree.Axis.ATTRIBUTE):
            visited = min(visited, self._nodes)
        found = min(visited, self._nodes)
        if step.axis not in _SINGLE_NODE_AXES and getattr(step.test, "local", None) is not None:
            found /= 4
        if step.axis is tree.Axis.ATTRIBUTE:
            found = min(found, size)
        more, found = self._predicates_cost(step.predicates, found, times)
        cost = times * max(visited, 1.0)
        if cost > self.costliest_step_cost:
            self.costliest_step, self.costliest_step_cost = step, cost
        return cost + more, found

    def _fan_out(self, axis: tree.Axis, wide: bool) -> float:
        if axis in _DOCUMENT_AXES:
            return self._nodes
        if axis in tree.SIBLING_AXES or (wide and axis is tree.Axis.CHILD):
            return max(_NEARBY_NODES, self._nodes / 10)
        if axis in tree.ANCESTOR_AXES:
            return self._depth
        return 1.0 if axis in _SINGLE_NODE_AXES else _NEARBY_NODES

    def _predicates_cost(
        self, predicates: tuple[tree.Expression, ...], size: float, times: float
    ) -> tuple[float, float]:
        cost = 0.0
        for predicate in predicates:
            if isinstance(predicate, tree.Number):
                cost, size = cost + times, min(size, 1.0)
            else:
                cost += self.cost(predicate, times * size)
        return cost, size
