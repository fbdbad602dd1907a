"""Bounds of what a query compares, by the name of the node whose value it is.

They rule most pairs out in which one query might cover another: of a thousand boxes in two
dimensions each is asked of each other one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from broker.matching.covering.formula import Atom, Connective, Exists, Formula, Opaque, conjuncts
from broker.matching.query.number import parse_number

#: The local name of the step that a comparison stands in (None: of any), and its subject.
ComparisonSite: TypeAlias = tuple[str | None, str]
#: The highest lower and the lowest upper bound at each place that has one.
Bounds: TypeAlias = Mapping[ComparisonSite, tuple[float, float]]

_NONE = (-math.inf, math.inf)


def required_bounds(formula: Formula) -> Bounds:
    """Bounds that are reached by the `offered_bounds` of every formula which is seen to imply this
    one."""
    found: dict[ComparisonSite, tuple[float, float]] = {}
    for local, atom in required_comparisons(formula):
        if isinstance(atom.constant, float) and atom.operator[0] in "<>":
            _tighten(found, (local, atom.subject), atom.operator, atom.constant)
    return found


def offered_bounds(formula: Formula) -> Bounds:
    """The furthest bounds anywhere in a formula, and numbers that something is equal to; those of
    every place with a name for any place, too."""
    found: dict[ComparisonSite, tuple[float, float]] = {}
    for local, atom in offered_comparisons(formula):
        value = atom.constant if isinstance(atom.constant, float) else parse_number(atom.constant)
        if math.isnan(value):
            continue
        for name in {local, None}:
            if atom.operator == "=":
                _tighten(found, (name, atom.subject), ">", value)
                _tighten(found, (name, atom.subject), "<", value)
            elif isinstance(atom.constant, float) and atom.operator[0] in "<>":
                _tighten(found, (name, atom.subject), atom.operator, value)
    return found


def bounds_may_follow(offered: Bounds, required: Bounds) -> bool:
    """Whether each required bound may follow from what is offered."""
    for place, (low, high) in required.items():
        lowest, highest = offered.get(place, _NONE)
        if low > lowest or high < highest:
            return False
    return True


def _tighten(
    found: dict[ComparisonSite, tuple[float, float]], at: ComparisonSite, sign: str, value: float
) -> None:
    low, high = found.get(at, _NONE)
    found[at] = (max(low, value), high) if sign[0] == ">" else (low, min(high, value))


def required_comparisons(
    formula: Formula, local: str | None = None
) -> Iterator[tuple[str | None, Atom]]:
    """Comparisons of which each must follow from one of `offered_comparisons`, with the local name
    of the step that they stand in; `local` is that of the formula itself."""
    for each in conjuncts(formula):
        if isinstance(each, Atom):
            yield local, each
        elif isinstance(each, Exists):
            for step in each.steps:
                for predicate in step.predicates:
                    yield from required_comparisons(predicate, step.local)


def offered_comparisons(
    formula: Formula, local: str | None = None
) -> Iterator[tuple[str | None, Atom]]:
    """All comparisons, but for those under a negation."""
    match formula:
        case Exists(steps=steps):
            for step in steps:
                for predicate in step.predicates:
                    yield from offered_comparisons(predicate, step.local)
            return
        case Connective(operands=inner) | Opaque(implied=inner):
            pass
        case Atom(implied=inner):
            yield local, formula
        case _:
            return
    for each in inner:
        yield from offered_comparisons(each, local)
