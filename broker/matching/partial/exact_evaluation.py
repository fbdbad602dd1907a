"""Evaluation of a query on a parsed event without libxml2.

It is some hundred times slower, but its work is limited.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from broker.matching.partial.document_tree import build_document_tree
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.evaluator import evaluate_template
from broker.matching.partial.formula import TRUE, TruthValue
from broker.matching.partial.source import Constant
from broker.matching.partial.template import template_without_parameters
from broker.matching.query.query import Query
from broker.matching.query.value_type import VARIABLE_TYPES
from broker.matching.xpath_evaluation import ParsedEvent


class NotEvaluated(Exception):
    """The query exceeds the work limit, or needs nodes that the trees lack."""


class ExactEvaluation:
    """Evaluates queries on one event; its tree is built for the first one."""

    def __init__(self, subject: ParsedEvent, max_work: int) -> None:
        self._subject = subject
        self._max_work = max_work

    def matches(self, query: Query) -> bool:
        """Return the query's boolean value, equal to libxml2's; raises `NotEvaluated`."""
        if self._input is None:
            raise NotEvaluated("the event has attributes whose prefixes are not known")
        result = evaluate_template(template_without_parameters(query), self._input, self._max_work)
        if not isinstance(result.formula, TruthValue) or result.formula is TruthValue.UNKNOWN:
            raise NotEvaluated("; ".join(result.reasons))
        return result.formula is TRUE

    @cached_property
    def _input(self) -> EvaluationInput | None:
        return build_evaluation_input(self._subject)


def build_evaluation_input(subject: ParsedEvent) -> EvaluationInput | None:
    """Build the input for a parsed event; None if its tree would be inexact."""
    payload = build_document_tree(subject.document())
    if payload is None:
        return None
    return EvaluationInput(
        payload, lambda: build_document_tree(subject.envelope), dict(_variable_sources(subject))
    )


def _variable_sources(subject: ParsedEvent) -> Iterator[tuple[str, Constant]]:
    for name in VARIABLE_TYPES:
        value = subject.variable(name)
        yield name, Constant(value.encode() if isinstance(value, str) else value)
