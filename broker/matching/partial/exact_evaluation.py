"""Evaluating a query on a parsed event without libxml2.

It takes some hundred times as long, but in proportion to the nodes that it looks at, whose number
is bounded: so what might take libxml2 very long is evaluated here (`budget.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.matching.evaluation import Subject
from broker.matching.partial.document_tree import constant_tree
from broker.matching.partial.evaluator import evaluate
from broker.matching.partial.formula import TRUE, Known
from broker.matching.partial.source import Constant
from broker.matching.partial.evaluation_input import Subjects
from broker.matching.partial.template import whole
from broker.matching.query.query import Query
from broker.matching.query.variables import VARIABLES


class NotEvaluated(Exception):
    """The query takes too many steps, or asks for what our trees do not have; the text says it."""


class ExactEvaluation:
    """Evaluates queries on one event, whose tree is made when the first one comes."""

    def __init__(self, subject: Subject, most: int) -> None:
        """`most` is the work that one query may take, in nodes looked at."""
        self._subject = subject
        self._most = most
        self._subjects: Subjects | None = None
        self._has_tree = True

    def matches(self, query: Query) -> bool:
        """The query's boolean value, always libxml2's; raises `NotEvaluated`."""
        if self._subjects is None and self._has_tree:
            self._subjects = subjects_of(self._subject)
            self._has_tree = self._subjects is not None
        if self._subjects is None:
            raise NotEvaluated("the event has attributes whose prefixes are not known")
        decision = evaluate(whole(query), self._subjects, self._most)
        if not isinstance(decision.formula, Known) or decision.formula is Known.UNKNOWN:
            raise NotEvaluated("; ".join(decision.reasons))
        return decision.formula is TRUE


def subjects_of(subject: Subject) -> Subjects | None:
    """What queries address in a parsed event, None if that can not be told exactly."""
    payload = constant_tree(subject.document())
    if payload is None:
        return None
    return Subjects(payload, lambda: constant_tree(subject.envelope), dict(_variables(subject)))


def _variables(subject: Subject) -> Iterator[tuple[str, Constant]]:
    for name in VARIABLES:
        value = subject.variable(name)
        yield name, Constant(value.encode() if isinstance(value, str) else value)
