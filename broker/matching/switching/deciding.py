"""What a tree decides of a family: its path is read off where it is plain, else it is evaluated."""

from __future__ import annotations

from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.evaluator import MAX_VISITS, evaluate_template
from broker.matching.partial.plain_path import Row, find_rows
from broker.matching.partial.work_budget import TooExpensive, WorkBudget
from broker.matching.switching.binding import Always, Binding, Indexed, bind
from broker.matching.switching.family import Family
from broker.matching.switching.plain import Plain
from broker.matching.switching.term import Term, Terms

#: Queries of a family up to which parts of it that no shape is likely to decide are not looked at:
#: for so few it is cheaper to evaluate those that the plain path lets through.
FEW = 256


def bound_to(family: Family, subjects: EvaluationInput, terms: Terms) -> tuple[Binding | None, int]:
    """The binding to a shape or a document's tree, and how many visits it took to find.

    None if no document of the shape can match.
    """
    plain = family.plain
    if plain is not None and (plain.alone or len(family.members) <= FEW):
        work = WorkBudget(MAX_VISITS)
        found = _read(plain, family, subjects, terms, work)
        if found is not None:
            return _binding(family, found, decided=plain.alone), work.spent
    decision = evaluate_template(family.template, subjects)
    return bind(family, decision.formula, terms), decision.visits


def _read(
    plain: Plain, family: Family, subjects: EvaluationInput, terms: Terms, work: WorkBudget
) -> list[Term] | None:
    def read() -> list[Row] | None:
        try:
            return find_rows(plain.path, subjects, work)
        except TooExpensive:
            return None

    return terms.of_rows(family.template, plain.part, read)


def _binding(family: Family, found: list[Term], *, decided: bool) -> Binding | None:
    if not found:
        return None
    if not family.template.parameters or not found[0].form.holes:
        # The path is there, and compares nothing.
        return Always(family, decided)
    return Indexed(family, decided, found)
