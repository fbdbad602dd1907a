"""Conjunctions of comparisons, in the form that shared indexes require."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import attrs

from broker.matching.index.parameter import Parameter
from broker.matching.index.shared_index import Signature
from broker.matching.partial.formula import (
    Atom,
    BooleanAtom,
    Conjunction,
    Formula,
    to_dnf,
    weaken_to_dnf,
)
from broker.matching.partial.plain_path import Row
from broker.matching.partial.source import Computed, Source
from broker.matching.partial.template import PartKey, Template
from broker.matching.partial.work_budget import OutOfTime, TooExpensive
from broker.matching.query import tree

#: A formula with more conjunctions is evaluated on bitmaps.
MAX_CONJUNCTIONS = 512

#: Functions that leave parts undecided, or give formulas other than conjunctions.
_NOT_CONJUNCTIVE = frozenset({"not", "count", "sum", "position", "last", "boolean", "id", "lang"})

#: Parameters in order of occurrence, and the number of the value that each is compared with.
_Pattern: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]


@attrs.frozen(slots=True, eq=False)
class ConjunctionForm:
    parameters: tuple[int, ...]
    signature: Signature


@attrs.frozen(slots=True, eq=False)
class IndexConjunction:
    """One conjunction: the sources of its form's parameters, and checks without parameters."""

    form: ConjunctionForm
    sources: tuple[Source, ...]
    checks: tuple[Computed, ...]


class ConjunctionReader:
    """Converts formulas to conjunctions. Templates share parts, so results are stored."""

    def __init__(self) -> None:
        self._conjunctions: dict[Formula, list[Conjunction] | None] = {}
        #: Compared parameters by the identity of the conjunctions. The value holds them, so the
        #: identity stays valid.
        self._parameters: dict[int, tuple[list[Conjunction], tuple[int, ...]]] = {}
        self._known: dict[tuple[object, ...], list[IndexConjunction] | None] = {}

    def read_formula(
        self, template: Template, formula: Formula, *, weaken: bool
    ) -> list[IndexConjunction] | None:
        """Return conjunctions of which one holds exactly if the decided formula holds; None
        without.

        With `weaken` one holds at least if the formula does.
        """
        if weaken:
            conjunctions = weaken_to_dnf(formula, MAX_CONJUNCTIONS, self._to_dnf)
        else:
            conjunctions = self._to_dnf(formula, MAX_CONJUNCTIONS)
        if conjunctions is None:
            return None
        parameters = self._compared_parameters(conjunctions)
        key = (
            id(conjunctions),
            *[(template.parameters[at], template.path_ids[at]) for at in parameters],
        )
        if key not in self._known:
            self._known[key] = _read_conjunctions(template, conjunctions)
        return self._known[key]

    def read_rows(
        self, template: Template, part: PartKey, compute_rows: Callable[[], list[Row]]
    ) -> list[IndexConjunction] | None:
        """Return conjunctions of which one holds exactly if one row of a template's part holds.

        Templates with an equal part have equal rows. Raises `OutOfTime`.
        """
        key = (part,)
        if key not in self._known:
            try:
                forms = _FormCache(template)
                self._known[key] = [forms.make_conjunction(row, ()) for row in compute_rows()]
            except OutOfTime:
                raise
            except TooExpensive:
                self._known[key] = None
        return self._known[key]

    def _to_dnf(self, formula: Formula, limit: int) -> list[Conjunction] | None:
        if formula not in self._conjunctions:
            self._conjunctions[formula] = to_dnf(formula, limit)
        return self._conjunctions[formula]

    def _compared_parameters(self, conjunctions: list[Conjunction]) -> tuple[int, ...]:
        known = self._parameters.get(id(conjunctions))
        if known is None:
            found = dict.fromkeys(
                part.parameter for each in conjunctions for part in each if isinstance(part, Atom)
            )
            known = self._parameters[id(conjunctions)] = conjunctions, tuple(found)
        return known[1]


def predict_form(template: Template) -> ConjunctionForm | None:
    """Return the conjunction of all parameters, which is the form on most shapes; None if it is
    not."""
    if not _is_conjunctive(template.expression):
        return None
    parameters = range(len(template.parameters))
    return _make_form(
        template,
        parameters,
        [template.parameters[parameter].subject or 0 for parameter in parameters],
    )


def _is_conjunctive(expression: tree.Expression) -> bool:
    match expression:
        case tree.Chain(operator="or" | "|") | tree.Filter():
            return False
        case tree.FunctionCall(name=name) if name in _NOT_CONJUNCTIVE:
            return False
    inner = (*tree.subexpressions_of(expression), *tree.predicates_of(expression))
    return all(map(_is_conjunctive, inner))


def _read_conjunctions(
    template: Template, conjunctions: Iterable[Conjunction]
) -> list[IndexConjunction] | None:
    """Return None if a conjunction compares two values with one parameter."""
    forms = _FormCache(template)
    result = []
    for conjunction in conjunctions:
        sources: Row = {}
        checks = []
        for part in conjunction:
            if isinstance(part, BooleanAtom):
                checks.append(part.source)
                continue
            source = sources.setdefault(part.parameter, part.source)
            if source is not part.source and source != part.source:
                return None
        result.append(forms.make_conjunction(sources, tuple(checks)))
    return result


class _FormCache:
    def __init__(self, template: Template) -> None:
        self._template = template
        self._known: dict[_Pattern, ConjunctionForm] = {}

    def make_conjunction(self, sources: Row, checks: tuple[Computed, ...]) -> IndexConjunction:
        parameters = self._template.parameters
        numbers: dict[tuple[int | None, Source], int] = {}
        pattern = (
            tuple(sources),
            tuple(
                [
                    # Equal values of different subjects are equal by chance.
                    numbers.setdefault((parameters[parameter].subject, source), len(numbers))
                    for parameter, source in sources.items()
                ]
            ),
        )
        form = self._known.get(pattern)
        if form is None:
            form = self._known[pattern] = _make_form(self._template, *pattern)
        return IndexConjunction(
            form, tuple([sources[parameter] for parameter in form.parameters]), checks
        )


def _make_form(
    template: Template, parameters: Sequence[int], subjects: Sequence[int]
) -> ConjunctionForm:
    subject_of = dict(zip(parameters, subjects, strict=True))

    def place(parameter: int) -> tuple[int, str, int]:
        return (
            template.path_ids[parameter],
            template.parameters[parameter].operator.value,
            parameter,
        )

    order = tuple(sorted(parameters, key=place))
    subject_numbers: dict[int, int] = {}
    signature_parameters = tuple(
        # Only order comparisons are found by their subject.
        Parameter(
            parameter.operator, subject_numbers.setdefault(subject_of[number], len(subject_numbers))
        )
        if (parameter := template.parameters[number]).is_threshold
        else Parameter(parameter.operator)
        for number in order
    )
    return ConjunctionForm(
        order, Signature(signature_parameters, tuple(template.path_ids[number] for number in order))
    )
