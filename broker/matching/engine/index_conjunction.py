"""A conjunction of comparisons, in the words of the indexes that templates share."""

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
from broker.matching.query import tree

#: Conjunctions that are asked one after the other; a formula of more is evaluated on bitmaps.
MAX_CONJUNCTIONS = 512

#: Functions that leave something undecided, or other formulas than conjunctions.
_NOT_CONJUNCTIVE = frozenset({"not", "count", "sum", "position", "last", "boolean", "id", "lang"})

#: Holes in the order in which they are met, and for each which value it compares, by number.
_Pattern: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]


@attrs.frozen(slots=True, eq=False)
class ConjunctionForm:
    """What conjunctions that differ in their sources alone have in common."""

    parameters: tuple[int, ...]
    """The template's holes in the order of the signature."""
    signature: Signature


@attrs.frozen(slots=True, eq=False)
class IndexConjunction:
    """One conjunction: the sources of the form's holes, and checks without any hole."""

    form: ConjunctionForm
    sources: tuple[Source, ...]
    checks: tuple[Computed, ...]


class ConjunctionReader:
    """Reads formulas. Templates have much in common, so what was read is remembered."""

    def __init__(self) -> None:
        self._conjunctions: dict[Formula, list[Conjunction] | None] = {}
        #: By the identity of conjunctions, which are held too, with the holes that they compare.
        self._parameters: dict[int, tuple[list[Conjunction], tuple[int, ...]]] = {}
        self._known: dict[tuple[object, ...], list[IndexConjunction] | None] = {}

    def read_formula(
        self, template: Template, formula: Formula, *, weaken: bool
    ) -> list[IndexConjunction] | None:
        """Terms of which one holds exactly when the formula, which is decided, does.

        None if there are none. With `weaken`, one holds if the formula does, at least.
        """
        if weaken:
            conjunctions = weaken_to_dnf(formula, MAX_CONJUNCTIONS, self._to_dnf)
        else:
            conjunctions = self._to_dnf(formula, MAX_CONJUNCTIONS)
        if conjunctions is None:
            return None
        holes = self._compared_parameters(conjunctions)
        key = (
            id(conjunctions),
            *[(template.parameters[at], template.path_ids[at]) for at in holes],
        )
        if key not in self._known:
            self._known[key] = _read_conjunctions(template, conjunctions)
        return self._known[key]

    def read_rows(
        self, template: Template, part: PartKey, read: Callable[[], list[Row] | None]
    ) -> list[IndexConjunction] | None:
        """Terms of which one holds exactly when one of the rows of a template's part does.

        `read` gives the rows, which are those of all templates with an equal part.
        """
        key = (part,)
        if key not in self._known:
            found = read()
            self._known[key] = None if found is None else _read_plain_rows(template, found)
        return self._known[key]

    def _to_dnf(self, formula: Formula, most: int) -> list[Conjunction] | None:
        if formula not in self._conjunctions:
            self._conjunctions[formula] = to_dnf(formula, most)
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
    """The form that the template has on most shapes; None if that is not plain.

    It is that of a conjunction of all holes, if shapes decide all else.
    """
    if not _is_conjunctive(template.expression):
        return None
    holes = range(len(template.parameters))
    return _make_form(template, holes, [template.parameters[hole].subject or 0 for hole in holes])


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
    """The conjunctions as terms; None if one compares two values with one hole."""
    forms = _FormCache(template)
    found = []
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
        found.append(forms.make_conjunction(sources, tuple(checks)))
    return found


def _read_plain_rows(template: Template, rows: Iterable[Row]) -> list[IndexConjunction]:
    forms = _FormCache(template)
    return [forms.make_conjunction(row, ()) for row in rows]


class _FormCache:
    """The forms of one template's conjunctions, which are few."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self._known: dict[_Pattern, ConjunctionForm] = {}

    def make_conjunction(self, sources: Row, checks: tuple[Computed, ...]) -> IndexConjunction:
        """A conjunction by what it compares with which hole."""
        holes = self._template.parameters
        numbers: dict[tuple[int | None, Source], int] = {}
        pattern = (
            tuple(sources),
            tuple(
                [
                    # Values that are equal by chance are not one subject.
                    numbers.setdefault((holes[hole].subject, source), len(numbers))
                    for hole, source in sources.items()
                ]
            ),
        )
        form = self._known.get(pattern)
        if form is None:
            form = self._known[pattern] = _make_form(self._template, *pattern)
        return IndexConjunction(form, tuple([sources[hole] for hole in form.parameters]), checks)


def _make_form(
    template: Template, holes: Sequence[int], subjects: Sequence[int]
) -> ConjunctionForm:
    subject_of = dict(zip(holes, subjects, strict=True))

    def place(hole: int) -> tuple[int, str, int]:
        return template.path_ids[hole], template.parameters[hole].operator.value, hole

    order = tuple(sorted(holes, key=place))
    numbers: dict[int, int] = {}
    signed = tuple(
        # Only what is compared by order is found by its subject.
        Parameter(hole.operator, numbers.setdefault(subject_of[at], len(numbers)))
        if (hole := template.parameters[at]).is_threshold
        else Parameter(hole.operator)
        for at in order
    )
    return ConjunctionForm(order, Signature(signed, tuple(template.path_ids[at] for at in order)))
