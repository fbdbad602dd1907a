"""Evaluation of a query on a parsed event without libxml2.

It is some hundred times slower, but its work is limited.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.matching.partial.document_tree import build_document_tree
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.evaluator import evaluate_template
from broker.matching.partial.formula import TRUE, TruthValue
from broker.matching.partial.source import Constant
from broker.matching.partial.template import template_without_parameters
from broker.matching.partial.work_budget import WorkBudget
from broker.matching.query.query import Query
from broker.matching.query.value_type import VARIABLE_TYPES
from broker.matching.xpath_evaluation import ParsedEvent


class NotEvaluated(Exception):
    """The query exceeds the work limit, or needs nodes that the trees lack."""


def evaluate_exactly(query: Query, subject: ParsedEvent, work: WorkBudget) -> bool:
    """Return the query's boolean value, equal to libxml2's; raises `NotEvaluated`."""
    evaluation_input = evaluation_input_of(subject)
    if evaluation_input is None:
        raise NotEvaluated("the event has attributes whose prefixes are not known")
    result = evaluate_template(template_without_parameters(query), evaluation_input, work)
    if not isinstance(result.formula, TruthValue) or result.formula is TruthValue.UNKNOWN:
        raise NotEvaluated("; ".join(result.reasons))
    return result.formula is TRUE


def evaluation_input_of(subject: ParsedEvent) -> EvaluationInput | None:
    """Return the input for a parsed event, built once; None if its tree would be inexact."""
    try:
        return subject.evaluation_input
    except AttributeError:
        subject.evaluation_input = _build_input(subject)
        return subject.evaluation_input


def _build_input(subject: ParsedEvent) -> EvaluationInput | None:
    payload = build_document_tree(subject.document())
    if payload is None:
        return None
    # The input refers to no event: only the garbage collector would end the event's tree.
    envelope = subject.envelope
    return EvaluationInput(
        payload, lambda: build_document_tree(envelope), dict(_variable_sources(subject))
    )


def _variable_sources(subject: ParsedEvent) -> Iterator[tuple[str, Constant]]:
    for name in VARIABLE_TYPES:
        value = subject.variable(name)
        yield name, Constant(value.encode() if isinstance(value, str) else value)
