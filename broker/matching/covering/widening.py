"""Widening: replace many queries by fewer, wider ones, never narrower ones (F8, F9).

The steps, for the largest groups first, and only as far as necessary:

1. Queries of a stream pattern that differ only in constants become one: ranges their hull, equal
   numbers a range, texts their common prefix. Other comparisons are dropped.
2. Queries with the same paths become the existence of these paths.
3. All queries of a stream pattern become `true()`.
4. All queries become `true()` on all streams.

Steps 1 and 2 drop everything except paths and values. The result depends on the set of queries
only.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias

import attrs

from broker.event.stream import StreamPattern
from broker.matching.covering.formula import (
    SELF,
    TRUE,
    Atom,
    Connective,
    Exists,
    Formula,
    Not,
    Opaque,
    combine,
    conjuncts,
)
from broker.matching.covering.normal_form import normalise_query
from broker.matching.covering.query_writer import format_number, write_query
from broker.matching.covering.stream_interest import StreamInterest
from broker.matching.query.query import parse_query

Replacement: TypeAlias = Callable[[Atom], Formula]
_Merge: TypeAlias = Callable[[list[Formula]], Formula]
#: Formulas with cached results. With more formulas each change takes longer.
_REMEMBERED = 32_768
_ALL_STREAMS = StreamPattern.parse(">")


def widen_interests(
    interests: Mapping[StreamInterest, Formula], limit: int
) -> frozenset[StreamInterest]:
    """Return at most `limit` interests that cover the given ones, which have their normal forms."""
    current = dict(interests)
    for group_of, merge in (
        (_without_constants, _merge_constants),
        (_paths_only, lambda forms: _paths_only(forms[0])),
        (lambda _: TRUE, lambda _: TRUE),
    ):
        if len(current) > limit:
            _apply_rung(current, limit, group_of, merge)
    if len(current) <= limit:
        return frozenset(current)
    return frozenset({StreamInterest(_ALL_STREAMS, parse_query("true()"))})


def _apply_rung(
    current: dict[StreamInterest, Formula],
    limit: int,
    group_of: Callable[[Formula], Formula],
    merge: _Merge,
) -> None:
    groups: dict[tuple[StreamPattern, Formula], list[StreamInterest]] = {}
    for interest, form in current.items():
        groups.setdefault((interest.pattern, group_of(form)), []).append(interest)
    shared = [(key, members) for key, members in groups.items() if len(members) > 1]
    for (pattern, _), members in sorted(
        shared, key=lambda g: (-len(g[1]), min(each.rank for each in g[1]))
    ):
        if len(current) <= limit:
            break
        query = write_query(merge([current.pop(interest) for interest in members]))
        current[StreamInterest(pattern, query)] = normalise_query(query)


@lru_cache(maxsize=_REMEMBERED)
def _without_constants(form: Formula) -> Formula:
    # Numbered, so that comparisons that differ only in constants stay distinct.
    places = itertools.count()

    def blank(atom: Atom) -> Formula:
        return attrs.evolve(atom, constant=type(atom.constant)(next(places)))

    return _rebuild(_writable_part(form), blank)


@lru_cache(maxsize=_REMEMBERED)
def _paths_only(form: Formula) -> Formula:
    return _rebuild(_writable_part(form), lambda _: TRUE, negations=False)


@lru_cache(maxsize=_REMEMBERED)
def _writable_part(form: Formula) -> Formula:
    def keep(atom: Atom) -> Formula:
        if atom.subject != SELF and atom.subject[0] != "$":
            return combine("and", [_writable_part(each) for each in atom.implied])
        constant = atom.constant
        if isinstance(constant, float) and format_number(constant, atom.operator) is None:
            return TRUE
        return atom

    return _rebuild(form, keep)


def _rebuild(form: Formula, replace: Replacement, *, negations: bool = True) -> Formula:

    def of(each: Formula) -> Formula:
        return _rebuild(each, replace, negations=negations)

    match form:
        case Atom():
            return replace(form)
        case Opaque(implied=implied):
            return combine("and", list(map(of, implied)))
        case Not(operand=operand):
            return form if negations and _writable_part(operand) == operand else TRUE
        case Connective(operator=sign, operands=operands):
            return combine(sign, list(map(of, operands)))
        case Exists(steps=steps):
            return attrs.evolve(
                form,
                steps=tuple(
                    attrs.evolve(
                        step,
                        positional_text="",
                        predicates=conjuncts(combine("and", list(map(of, step.predicates)))),
                    )
                    for step in steps
                ),
            )
    return form


def _merge_constants(forms: list[Formula]) -> Formula:
    """Return the common part of formulas that differ only in constants."""
    plain = [_writable_part(form) for form in forms]
    columns = zip(*map(_collect_atoms, plain), strict=True)
    merged = iter([_merge_atoms(list(column)) for column in columns])
    return _rebuild(plain[0], lambda _: next(merged))


@lru_cache(maxsize=_REMEMBERED)
def _collect_atoms(form: Formula) -> tuple[Atom, ...]:
    """Return the comparisons in the order in which `_rebuild` replaces them."""
    found: list[Atom] = []

    def note(atom: Atom) -> Formula:
        found.append(atom)
        return atom

    _rebuild(form, note)
    return tuple(found)


def _merge_atoms(atoms: list[Atom]) -> Formula:
    first = atoms[0]
    if all(each.constant == first.constant for each in atoms):
        return first
    texts = [each.constant for each in atoms if isinstance(each.constant, str)]
    if texts:
        if first.operator not in ("=", "starts-with"):
            return TRUE
        prefix = os.path.commonprefix(texts)
        return attrs.evolve(first, operator="starts-with", constant=prefix) if prefix else TRUE
    numbers = [each.constant for each in atoms if isinstance(each.constant, float)]
    match first.operator[0]:
        case "<":
            return attrs.evolve(first, constant=max(numbers))
        case ">":
            return attrs.evolve(first, constant=min(numbers))
        case "=":
            low = attrs.evolve(first, operator=">=", constant=min(numbers))
            return combine("and", [low, attrs.evolve(first, operator="<=", constant=max(numbers))])
    return TRUE
