"""What a tree decides of a family: its path is read off where it is plain, else it is evaluated."""

from __future__ import annotations

from broker.matching.engine.binding import AlwaysBinding, Binding, IndexedBinding, bind_formula
from broker.matching.engine.index_conjunction import ConjunctionReader, IndexConjunction
from broker.matching.engine.plain_part import PlainPart
from broker.matching.engine.query_family import QueryFamily
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.evaluator import MAX_VISITS, evaluate_template
from broker.matching.partial.plain_path import Row, find_rows
from broker.matching.partial.work_budget import TooExpensive, WorkBudget

#: Queries of a family up to which parts of it that no shape is likely to decide are not looked at:
#: for so few it is cheaper to evaluate those that the plain path lets through.
MAX_PLAIN_MEMBERS = 256


def bind_family(
    family: QueryFamily, subjects: EvaluationInput, terms: ConjunctionReader
) -> tuple[Binding | None, int]:
    """The binding to a shape or a document's tree, and how many visits it took to find.

    None if no document of the shape can match.
    """
    plain = family.plain_part
    if plain is not None and (plain.is_whole or len(family.members) <= MAX_PLAIN_MEMBERS):
        work = WorkBudget(MAX_VISITS)
        found = _read_rows(plain, family, subjects, terms, work)
        if found is not None:
            return _bind_conjunctions(family, found, decided=plain.is_whole), work.spent
    decision = evaluate_template(family.template, subjects)
    return bind_formula(family, decision.formula, terms), decision.visits


def _read_rows(
    plain: PlainPart,
    family: QueryFamily,
    subjects: EvaluationInput,
    terms: ConjunctionReader,
    work: WorkBudget,
) -> list[IndexConjunction] | None:
    def read() -> list[Row] | None:
        try:
            return find_rows(plain.path, subjects, work)
        except TooExpensive:
            return None

    return terms.read_rows(family.template, plain.key, read)


def _bind_conjunctions(
    family: QueryFamily, found: list[IndexConjunction], *, decided: bool
) -> Binding | None:
    if not found:
        return None
    if not family.template.parameters or not found[0].form.parameters:
        # The path is there, and compares nothing.
        return AlwaysBinding(family, decided)
    return IndexedBinding(family, decided, found)
