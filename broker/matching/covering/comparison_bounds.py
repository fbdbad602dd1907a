"""Bounds of the comparisons in a query, by the name of the compared node.

They exclude most pairs before the full test of covering. A thousand two-dimensional boxes would all
be compared with each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from broker.matching.covering.formula import Atom, Connective, Exists, Formula, Opaque, conjuncts
from broker.matching.query.number import parse_number

#: Local name of the step with the comparison (None for any), and its subject.
ComparisonSite: TypeAlias = tuple[str | None, str]
#: Highest lower and lowest upper bound at each site.
Bounds: TypeAlias = Mapping[ComparisonSite, tuple[float, float]]

_NONE = (-math.inf, math.inf)


def required_bounds(formula: Formula) -> Bounds:
    """Return the bounds that must be in the `offered_bounds` of every formula that implies this
    one.
    """
    found: dict[ComparisonSite, tuple[float, float]] = {}
    for local, atom in required_comparisons(formula):
        if isinstance(atom.constant, float) and atom.operator[0] in "<>":
            _tighten(found, (local, atom.subject), atom.operator, atom.constant)
    return found


def offered_bounds(formula: Formula) -> Bounds:
    """Return the tightest bounds anywhere in a formula, including equal numbers.

    Bounds at a named site are also offered for any name.
    """
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
    """Yield comparisons that must each follow from one of `offered_comparisons`.

    Each has the local name of its step; `local` is the name for the formula itself.
    """
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
    """Yield all comparisons except negated ones."""
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
