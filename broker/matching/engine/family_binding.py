"""Binding of a family to a tree, by its plain path or by partial evaluation."""

from __future__ import annotations

from broker.matching.engine.binding import AlwaysBinding, Binding, IndexedBinding, bind_formula
from broker.matching.engine.index_conjunction import ConjunctionReader, IndexConjunction
from broker.matching.engine.plain_part import PlainPart
from broker.matching.engine.query_family import QueryFamily
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.evaluator import MAX_VISITS, evaluate_template
from broker.matching.partial.plain_path import Row, find_rows
from broker.matching.partial.work_budget import TooExpensive, WorkBudget

#: Maximum size of a family for which only the plain path is looked up. It ignores parts that shapes
#: seldom decide. lxml evaluates the members that the path leaves, which is cheaper for so few.
MAX_PLAIN_MEMBERS = 256


def bind_family(
    family: QueryFamily, evaluation_input: EvaluationInput, reader: ConjunctionReader
) -> tuple[Binding | None, int]:
    """Return the binding to the tree of a shape or document, and the number of visits.

    The binding is None if no document of the shape can match.
    """
    plain_part = family.plain_part
    if plain_part is not None and (plain_part.is_whole or len(family.members) <= MAX_PLAIN_MEMBERS):
        work = WorkBudget(MAX_VISITS)
        conjunctions = _read_rows(plain_part, family, evaluation_input, reader, work)
        if conjunctions is not None:
            return _bind_conjunctions(family, conjunctions, decided=plain_part.is_whole), work.spent
    decision = evaluate_template(family.template, evaluation_input)
    return bind_formula(family, decision.formula, reader), decision.visits


def _read_rows(
    plain_part: PlainPart,
    family: QueryFamily,
    evaluation_input: EvaluationInput,
    reader: ConjunctionReader,
    work: WorkBudget,
) -> list[IndexConjunction] | None:
    def read() -> list[Row] | None:
        try:
            return find_rows(plain_part.path, evaluation_input, work)
        except TooExpensive:
            return None

    return reader.read_rows(family.template, plain_part.key, read)


def _bind_conjunctions(
    family: QueryFamily, conjunctions: list[IndexConjunction], *, decided: bool
) -> Binding | None:
    if not conjunctions:
        return None
    if not family.template.parameters or not conjunctions[0].form.parameters:
        # The path exists, and has no comparisons.
        return AlwaysBinding(family, decided)
    return IndexedBinding(family, decided, conjunctions)
