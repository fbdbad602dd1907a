"""Features of queries, to find candidates for covering by look-up.

A query that implies another offers every feature that the other requires.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import TypeAlias

from broker.event.stream import StreamPattern
from broker.matching.covering.formula import (
    SELF,
    Atom,
    Connective,
    Exists,
    Formula,
    Not,
    Opaque,
    PathStep,
    conjuncts,
)
from broker.matching.query.number import parse_number

Feature: TypeAlias = tuple[Hashable, ...]


def required_features(formula: Formula) -> frozenset[Feature]:
    """Return the features that every formula offers that implies this one."""
    match formula:
        case Connective(operator="or", operands=operands):
            return frozenset.intersection(*map(required_features, operands))
        case Connective(operands=operands):
            return frozenset().union(*map(required_features, operands))
        case Exists(steps=steps):
            inner = (required_features(each) for step in steps for each in step.predicates)
            return frozenset(_names(steps)).union(*inner)
        case Atom(operator="=", constant=constant):
            return frozenset({*_subject(formula), _equal(constant)})
        case Atom():
            return frozenset(_subject(formula))
        case Opaque(text=text):
            return frozenset({("opaque", text)})
        case Not():
            return frozenset({("not",)})
    return frozenset()


def offered_features(formula: Formula) -> frozenset[Feature]:
    found: set[Feature] = set()
    for part in _parts(formula):
        match part:
            case Exists(steps=steps):
                found.update(_names(steps))
            case Atom(operator=sign, constant=constant):
                found.update(_subject(part))
                if sign == "=":
                    found.add(_equal(constant))
                    if isinstance(constant, str) and not math.isnan(n := parse_number(constant)):
                        found.add(_equal(n))
            case Opaque(text=text):
                found.add(("opaque", text))
            case Not():
                found.add(("not",))
    return frozenset(found)


def required_stream_features(pattern: StreamPattern) -> frozenset[Feature]:
    exact = () if {"*", ">"} & set(pattern.tokens) else (("stream", pattern.text),)
    return frozenset((*exact, *_tokens(pattern)))


def offered_stream_features(pattern: StreamPattern) -> frozenset[Feature]:
    return frozenset((("stream", pattern.text), *_tokens(pattern)))


def _parts(formula: Formula) -> Iterator[Formula]:
    yield formula
    match formula:
        case Connective(operands=inner) | Atom(implied=inner) | Opaque(implied=inner):
            pass
        case Exists(steps=steps):
            inner = tuple(each for step in steps for each in step.predicates)
        case _:
            return
    for each in inner:
        yield from _parts(each)


def _names(steps: tuple[PathStep, ...]) -> Iterator[Feature]:
    for step in steps:
        if step.local is not None:
            yield ("name", step.kind, step.namespace, step.local)


def _equal(constant: str | float) -> Feature:
    return ("=", "text" if isinstance(constant, str) else "number", constant)


def _subject(atom: Atom) -> tuple[Feature, ...]:
    return () if atom.subject == SELF else (("subject", atom.subject),)


def _tokens(pattern: StreamPattern) -> Iterator[Feature]:
    for place, token in enumerate(pattern.tokens):
        if token not in ("*", ">"):
            yield ("token", place, token)


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
    """Return the tightest bounds anywhere in a formula, at a named site also for any name."""
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
    """Yield comparisons, with the local name of their step, that must each follow from one of
    `offered_comparisons`."""
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
