"""Plain paths: a fast path of the partial evaluator for the most common queries.

A plain path has names only, and predicates that compare attributes or children, as in
`//Param[@name="SC_Lat" and @value > 600]`. Each selected node gives *rows*: sources for the
parameters compared there, of which one must satisfy all comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import attrs

from broker.matching.index.parameter import Operator
from broker.matching.partial import function_library as library
from broker.matching.partial.axis import walk_axis
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.node_set import string_value
from broker.matching.partial.source import Constant, Source, computed
from broker.matching.partial.template import PartKey, Template
from broker.matching.partial.work_budget import TooExpensive, WorkBudget
from broker.matching.query import tree
from broker.matching.query.tree import Axis, PathStart
from broker.matching.shape.tree import Node

#: Compared source by template parameter, at one node.
Row: TypeAlias = dict[int, Source]

#: Rows of one path; with more, the evaluator takes over.
MAX_ROWS = 512

#: They use the first node's text, or the empty text if there is no node.
_FIRST_NODE_OPERATORS = frozenset({Operator.STARTS_WITH, Operator.CONTAINS})
_EMPTY = Constant(b"")


@attrs.frozen
class PlainStep:
    axis: Axis
    """Child, descendant or attribute."""
    namespace: str | None
    local: str
    comparisons: tuple[PlainComparison, ...]


@attrs.frozen
class PlainComparison:
    parameter: int
    operator: Operator
    numeric: bool
    step: PlainStep


@attrs.frozen
class PlainPath:
    """Steps from the payload's root; `comparison` is that of the selected nodes, if any."""

    steps: tuple[PlainStep, ...]
    comparison: tuple[int, Operator, bool] | None


def compile_plain_path(template: Template, expression: tree.Expression) -> PlainPath | None:
    """Compile an expression of the template; None if it is not plain."""
    return _PlainPathCompiler(template).compile_path(expression)


def find_rows(path: PlainPath, evaluation_input: EvaluationInput, work: WorkBudget) -> list[Row]:
    """Return the rows of the path. Raises `TooExpensive`, also for too many rows."""
    return _RowFinder(evaluation_input, work).find(path)


class _PlainPathCompiler:
    def __init__(self, template: Template) -> None:
        self._template = template

    def compile_path(self, expression: tree.Expression) -> PlainPath | None:
        subject, compared = expression, None
        found = self._split_comparison(expression)
        if found is not None:
            subject, compared = found
        if not isinstance(subject, tree.Path) or subject.start is not PathStart.DOCUMENT:
            return None
        steps = self._compile_steps(subject.steps)
        if steps is None:
            return None
        if compared is not None and compared[1] in _FIRST_NODE_OPERATORS:
            # The first node may depend on the predicates' values.
            if any(step.comparisons for step in steps):
                return None
        return PlainPath(steps, compared)

    def _split_comparison(
        self, expression: tree.Expression
    ) -> tuple[tree.Expression, tuple[int, Operator, bool]] | None:
        match expression:
            case tree.Binary(position=position, left=left, right=right):
                subject = right if tree.literal_value(right) is None else left
            case tree.FunctionCall(position=position, arguments=[subject, _]):
                pass
            case _:
                return None
        parameter = self._template.parameter_at.get(position)
        if parameter is None:
            return None
        known = self._template.parameters[parameter]
        return subject, (parameter, known.operator, known.is_numeric)

    def _compile_steps(self, steps: Sequence[tree.Step]) -> tuple[PlainStep, ...] | None:
        found = []
        descends = False
        for place, step in enumerate(steps):
            if tree.is_any_descendant(step) and place + 1 < len(steps) and not descends:
                descends = True
                continue
            read = self._compile_step(step, descends)
            if read is None or (read.axis is Axis.ATTRIBUTE and place + 1 < len(steps)):
                return None
            found.append(read)
            descends = False
        return tuple(found) if found else None

    def _compile_step(self, step: tree.Step, descends: bool) -> PlainStep | None:
        test = step.test
        if not isinstance(test, tree.NameTest) or test.local is None:
            return None
        if step.axis is Axis.CHILD:
            axis = Axis.DESCENDANT if descends else Axis.CHILD
        elif step.axis is Axis.ATTRIBUTE and not descends:
            axis = Axis.ATTRIBUTE
        else:
            return None
        comparisons: list[PlainComparison] = []
        for predicate in step.predicates:
            parts: tuple[tree.Expression, ...] = (predicate,)
            if isinstance(predicate, tree.Chain) and predicate.operator == "and":
                parts = predicate.operands
            for part in parts:
                read = self._compile_predicate(part)
                if read is None:
                    return None
                comparisons.append(read)
        namespace = None if test.prefix is None else self._template.namespaces[test.prefix]
        return PlainStep(axis, namespace, test.local, tuple(comparisons))

    def _compile_predicate(self, expression: tree.Expression) -> PlainComparison | None:
        found = self._split_comparison(expression)
        if found is None:
            return None
        subject, (parameter, operator, numeric) = found
        if not isinstance(subject, tree.Path) or subject.start is not PathStart.CONTEXT:
            return None
        steps = self._compile_steps(subject.steps)
        if steps is None or len(steps) != 1 or steps[0].axis is Axis.DESCENDANT:
            return None
        if operator in _FIRST_NODE_OPERATORS and steps[0].comparisons:
            return None
        return PlainComparison(parameter, operator, numeric, steps[0])


class _RowFinder:
    def __init__(self, evaluation_input: EvaluationInput, work: WorkBudget) -> None:
        self._input = evaluation_input
        self._work = work

    def find(self, path: PlainPath) -> list[Row]:
        reached: list[tuple[Node, Row]] = [(self._input.payload, {})]
        for step in path.steps:
            reached = [
                (node, row)
                for origin, before in _remove_duplicates(reached)
                for node in self._select_nodes(step, origin)
                for row in self._rows_of_node(step, node, before)
            ]
            if len(reached) > MAX_ROWS:
                raise TooExpensive
        if path.comparison is None:
            return [row for _, row in reached]
        parameter, operator, numeric = path.comparison
        if operator in _FIRST_NODE_OPERATORS:
            nodes = sorted({node for node, _ in reached}, key=lambda node: node.order)
            return [{parameter: string_value(nodes[0], self._work) if nodes else _EMPTY}]
        return [
            {**row, parameter: self._node_value(node, numeric)}
            for node, row in _remove_duplicates(reached)
        ]

    def _select_nodes(self, step: PlainStep, origin: Node) -> Iterator[Node]:
        candidates: Sequence[Node]
        if step.axis is Axis.ATTRIBUTE:
            candidates = origin.attributes
        elif step.axis is Axis.CHILD:
            candidates = origin.children
        elif origin.parent is None:
            candidates = self._input.elements_by_name.find(origin, step.namespace, step.local)
        else:
            candidates = list(walk_axis(Axis.DESCENDANT, origin))
        self._work.spend(len(candidates))
        local, namespace = step.local, step.namespace
        for node in candidates:
            # Texts have no name.
            if node.local == local and node.namespace == namespace:
                yield node

    def _rows_of_node(self, step: PlainStep, node: Node, before: Row) -> list[Row]:
        """Rows of a node from the row before: one for each combination of compared values."""
        found = [before]
        for comparison in step.comparisons:
            choices = list(self._comparison_rows(comparison, node))
            found = [{**row, **choice} for row in found for choice in choices]
            if len(found) > MAX_ROWS:
                raise TooExpensive
        return found

    def _comparison_rows(self, comparison: PlainComparison, node: Node) -> Iterator[Row]:
        parameter, step = comparison.parameter, comparison.step
        if comparison.operator in _FIRST_NODE_OPERATORS:
            first = next(self._select_nodes(step, node), None)
            yield {parameter: _EMPTY if first is None else string_value(first, self._work)}
            return
        for target in self._select_nodes(step, node):
            value = self._node_value(target, comparison.numeric)
            for row in self._rows_of_node(step, target, {}):
                yield {**row, parameter: value}

    def _node_value(self, node: Node, numeric: bool) -> Source:
        text = string_value(node, self._work)
        return computed(library.number, text) if numeric else text


def _remove_duplicates(reached: list[tuple[Node, Row]]) -> list[tuple[Node, Row]]:
    found: Mapping[tuple[Node, tuple[tuple[int, Source], ...]], tuple[Node, Row]] = {
        (node, tuple(row.items())): (node, row) for node, row in reached
    }
    return list(found.values())


@attrs.frozen
class PlainPart:
    """The plain path of a template: the whole, or one part of an outermost `and`."""

    path: PlainPath
    key: PartKey
    """Equal for equal parts of templates with equal numbers of parameters."""
    is_whole: bool
    """False if there are other parts. Shapes seldom decide them."""


def find_plain_part(template: Template) -> PlainPart | None:
    """Return None for a template that must be evaluated."""
    parts = template.parts
    paths = [compile_plain_path(template, each) for each in parts]
    plain_paths = [(at, path) for at, path in enumerate(paths) if path is not None]
    if len(plain_paths) != 1:
        return None
    [(chosen, path)] = plain_paths
    if not all(_counts_filtered_nodes(each) for at, each in enumerate(parts) if at != chosen):
        return None
    return PlainPart(path, template.part_keys[chosen], is_whole=len(parts) == 1)


def _counts_filtered_nodes(expression: tree.Expression) -> bool:
    """Return True if it counts, sums or numbers nodes that predicates select."""
    match expression:
        case tree.FunctionCall(name="count" | "sum", arguments=arguments):
            return any(map(_has_predicates, arguments))
        case tree.Filter(primary=primary):
            return _has_predicates(primary)
    inner = (*tree.subexpressions_of(expression), *tree.predicates_of(expression))
    return any(map(_counts_filtered_nodes, inner))


def _has_predicates(expression: tree.Expression) -> bool:
    return isinstance(expression, tree.Path) and any(step.predicates for step in expression.steps)
