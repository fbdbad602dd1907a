"""Fewer, wider queries in place of many (F8, F9): never narrower than what they stand for.

The ladder; within each rung the largest group goes first, and only as many as it takes:

1. queries that differ in constants only become one, per stream pattern: ranges their hull, numbers
   that are equal to something the range of these, strings and prefixes their longest common prefix,
   all else is dropped;
2. queries that ask for the same paths become the existence of these;
3. all of a stream pattern become `true()`;
4. all become `true()` on all streams.

In 1 and 2, what a path and its values do not say (positions, calculations, other axes) is dropped.
The result depends on the set of queries alone.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

import attrs

from broker.event.stream import StreamPattern
from broker.matching.query.query import parse_query
from broker.matching.upstream.formula import (
    SELF,
    TRUE,
    Atom,
    Exists,
    Formula,
    Joint,
    Not,
    Opaque,
    conjuncts,
    joined,
)
from broker.matching.upstream.normal import form_of
from broker.matching.upstream.want import Want
from broker.matching.upstream.writing import number_text, written

Replacement: TypeAlias = Callable[[Atom], Formula]
_Merge: TypeAlias = Callable[[list[Formula]], Formula]
#: Formulas of which the parts that widening needs are kept; beyond, each change takes longer.
_REMEMBERED = 32_768
_ALL_STREAMS = StreamPattern.parse(">")


def widened(wants: Mapping[Want, Formula], most: int) -> frozenset[Want]:
    """At most `most` (1 or more) wants that together want all that these do, of which the forms
    are given.
    """
    current = dict(wants)
    for group_of, merge in ((_but_for_constants, _hull), (_paths_only, _first), (_stream, _all)):
        if len(current) > most:
            _rung(current, most, group_of, merge)
    if len(current) <= most:
        return frozenset(current)
    return frozenset({Want(_ALL_STREAMS, parse_query("true()"))})


def _rung(
    current: dict[Want, Formula], most: int, group_of: Callable[[Formula], Formula], merge: _Merge
) -> None:
    groups: dict[tuple[StreamPattern, Formula], list[Want]] = {}
    for want, form in current.items():
        groups.setdefault((want.pattern, group_of(form)), []).append(want)
    shared = [(key, members) for key, members in groups.items() if len(members) > 1]
    for (pattern, _), members in sorted(shared, key=lambda g: (-len(g[1]), min(_ranks(g[1])))):
        if len(current) <= most:
            break
        query = written(merge([current.pop(want) for want in members]))
        current[Want(pattern, query)] = form_of(query)


def _ranks(wants: list[Want]) -> Iterator[tuple[object, ...]]:
    return (want.rank for want in wants)


# --------------------------------------------------------------------------- groups


@lru_cache(maxsize=_REMEMBERED)
def _but_for_constants(form: Formula) -> Formula:
    # Numbered, so that comparisons that differ in constants only do not become one.
    places = itertools.count()

    def blank(atom: Atom) -> Formula:
        return attrs.evolve(atom, constant=type(atom.constant)(next(places)))

    return _rebuilt(_plain(form), blank)


@lru_cache(maxsize=_REMEMBERED)
def _paths_only(form: Formula) -> Formula:
    return _rebuilt(_plain(form), lambda _: TRUE, negations=False)


def _stream(_form: Formula) -> Formula:
    return TRUE


def _first(forms: list[Formula]) -> Formula:
    return _paths_only(forms[0])


def _all(_forms: list[Formula]) -> Formula:
    return TRUE


@lru_cache(maxsize=_REMEMBERED)
def _plain(form: Formula) -> Formula:
    """The formula without what could not be written down again."""

    def keep(atom: Atom) -> Formula:
        if atom.subject != SELF and atom.subject[0] != "$":
            return joined("and", [_plain(each) for each in atom.needs])
        constant = atom.constant
        if isinstance(constant, float) and number_text(constant, atom.operator) is None:
            return TRUE
        return atom

    return _rebuilt(form, keep)


def _rebuilt(form: Formula, replace: Replacement, *, negations: bool = True) -> Formula:
    """The formula with its comparisons replaced by what follows from them."""

    def of(each: Formula) -> Formula:
        return _rebuilt(each, replace, negations=negations)

    match form:
        case Atom():
            return replace(form)
        case Opaque(needs=needs):
            return joined("and", list(map(of, needs)))
        case Not(operand=operand):
            return form if negations and _plain(operand) == operand else TRUE
        case Joint(operator=sign, operands=operands):
            return joined(sign, list(map(of, operands)))
        case Exists(steps=steps):
            return attrs.evolve(
                form,
                steps=tuple(
                    attrs.evolve(
                        step,
                        ordered="",
                        predicates=conjuncts(joined("and", list(map(of, step.predicates)))),
                    )
                    for step in steps
                ),
            )
    return form


# --------------------------------------------------------------------------- hulls


def _hull(forms: list[Formula]) -> Formula:
    """What formulas that differ in constants only have in common."""
    plain = [_plain(form) for form in forms]
    columns = zip(*map(_atoms, plain), strict=True)
    merged = iter([_merged(list(column)) for column in columns])
    return _rebuilt(plain[0], lambda _: next(merged))


@lru_cache(maxsize=_REMEMBERED)
def _atoms(form: Formula) -> tuple[Atom, ...]:
    """Its comparisons in the order in which `_rebuilt` replaces them."""
    found: list[Atom] = []

    def note(atom: Atom) -> Formula:
        found.append(atom)
        return atom

    _rebuilt(form, note)
    return tuple(found)


def _merged(atoms: list[Atom]) -> Formula:
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
            return joined("and", [low, attrs.evolve(first, operator="<=", constant=max(numbers))])
    return TRUE
