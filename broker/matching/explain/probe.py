"""Evaluates parts of a query at nodes of one event, within limits (checklist F13)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, TypeVar

from broker.errors import QueryTooExpensive
from broker.matching.explain.access_method import truncate
from broker.matching.explain.explanation import FoundValue
from broker.matching.explain.node_path import PathFormatter
from broker.matching.explain.xpath_writer import NO_POSITION, XPathWriter
from broker.matching.partial.axis import walk_axis
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.evaluator import Evaluator
from broker.matching.partial.exact_evaluation import evaluation_input_of
from broker.matching.partial.formula import TRUE, UNKNOWN, Formula
from broker.matching.partial.guarded_value import GuardedValue
from broker.matching.partial.node_set import Context, string_value
from broker.matching.partial.source import Constant
from broker.matching.partial.template import template_without_parameters
from broker.matching.partial.work_budget import TooExpensive, Undecidable, WorkBudget
from broker.matching.query import tree
from broker.matching.query.limits import NO_LIMITS
from broker.matching.query.query import Query, parse_query
from broker.matching.query.tree import Axis
from broker.matching.query.value_type import value_type
from broker.matching.query_bounds import MAX_TREE
from broker.matching.shape.tree import Node
from broker.matching.xpath_evaluation import ParsedEvent

#: Maximum evaluations of one explanation.
MAX_PROBES: Final = 600
#: Nodes of the largest event whose tree is evaluated: some 50 ms.
MAX_NODES: Final = 8_192
#: Work of one evaluation: some 0.1 s.
MAX_WORK: Final = 100_000
#: Nodes shown of a node-set.
MAX_VALUES: Final = 5

_Result = TypeVar("_Result")


class ProbeLimitExceeded(Exception):
    """The limit is reached, or the tree does not decide an expression; the text is the reason."""


class Probe:
    """Evaluates expressions of one query on one event. All methods raise `ProbeLimitExceeded`.

    `matches` evaluates a query by lxml, which decides more than the tree.
    """

    def __init__(
        self,
        query: Query,
        event: ParsedEvent,
        clock: Callable[[], float],
        matches: Callable[[Query], bool],
        deadline: float,
    ) -> None:
        """No evaluation starts after `deadline`, a time of `clock`."""
        self.namespaces = dict(query.namespaces)
        self._writer = XPathWriter(query.text)
        self._matches = matches
        self._template = template_without_parameters(query)
        self._formatter = PathFormatter(query)
        self._event = event
        self._clock = clock
        self._deadline = deadline
        self._left = MAX_PROBES

    def evaluate_boolean(self, expression: tree.Expression, node: Node | None) -> bool:
        try:
            return self._run(node, lambda e, at: _known(e, e.evaluate_boolean(expression, at)))
        except ProbeLimitExceeded as bound:
            if node is not None or not str(bound):
                raise
        try:
            text = self._writer.write(expression)
            return self._matches(parse_query(text, self.namespaces, NO_LIMITS))
        except QueryTooExpensive as reason:
            raise ProbeLimitExceeded(str(reason)) from None

    def list_nodes(self, nodes: tree.Expression, node: Node | None) -> list[Node]:
        """Return the nodes in document order."""

        def select(evaluator: Evaluator, at: Context) -> list[Node]:
            members = evaluator.evaluate_nodes(nodes, at)
            return [each for each, condition in members if _known(evaluator, condition)]

        return self._run(node, select)

    def find_namespaces(self, local: str) -> set[str]:
        """Return the namespaces of the payload's elements of a name, "" for none."""

        def search(_: Evaluator, at: Context) -> set[str]:
            elements = walk_axis(Axis.DESCENDANT_OR_SELF, at.node)
            return {each.namespace or "" for each in elements if each.local == local}

        return self._run(None, search)

    def evaluate_string(self, expression: tree.Expression, node: Node | None) -> str:
        text: bytes = self._run(node, lambda e, at: _value(e, e.evaluate_text(expression, at)))
        return text.decode()

    def evaluate_literal(self, expression: tree.Expression, node: Node | None) -> tree.Expression:
        """Return the value of a string or a number as a literal."""
        if tree.literal_value(expression) is not None:
            return expression
        if value_type(expression) is tree.ValueType.STRING:
            return tree.Literal(NO_POSITION, self.evaluate_string(expression, node))
        number = self._run(node, lambda e, at: _value(e, e.evaluate_number(expression, at)))
        return tree.Number(NO_POSITION, number)

    def locate_node(self, node: Node) -> str:
        return self._formatter.format_node(node)

    def show_node(self, node: Node) -> FoundValue:
        source = string_value(node, WorkBudget(MAX_TREE))
        assert isinstance(source, Constant)
        return FoundValue(self.locate_node(node), truncate(source.value.decode()))

    @cached_property
    def _input(self) -> EvaluationInput:
        if self._event.count_nodes(envelope=True) > MAX_NODES:
            raise ProbeLimitExceeded
        found = evaluation_input_of(self._event)
        if found is None:
            raise ProbeLimitExceeded("the event has attributes whose prefixes are not known")
        return found

    def _run(self, node: Node | None, compute: Callable[[Evaluator, Context], _Result]) -> _Result:
        """Compute a value at a node; None is the payload's element."""
        self._left -= 1
        if self._left < 0 or self._clock() > self._deadline:
            raise ProbeLimitExceeded
        # A new one each time, since results of evaluators are stored by position in the query.
        evaluator = Evaluator(self._template, self._input, WorkBudget(MAX_WORK))
        try:
            return compute(evaluator, Context(node or evaluator.root_element))
        except TooExpensive:
            raise ProbeLimitExceeded from None
        except Undecidable as reason:
            raise ProbeLimitExceeded(str(reason)) from None


def _known(evaluator: Evaluator, formula: Formula) -> bool:
    if formula is UNKNOWN:
        raise ProbeLimitExceeded("; ".join(evaluator.reasons))
    return formula is TRUE


def _value(evaluator: Evaluator, cases: GuardedValue) -> Any:
    (source,) = (source for when, source in cases if _known(evaluator, when))
    assert isinstance(source, Constant)
    return source.value
