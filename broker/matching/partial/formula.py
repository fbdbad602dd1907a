"""When the documents of a shape match: formulas over comparisons of values with literals.

A formula holds for a document and for the literals of a query. `UNKNOWN` stands for what the shape
does not decide; `possible` turns it into a necessary condition.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import attrs

from broker.matching.partial.source import Computed, Source


class Known(enum.Enum):
    """What does not depend on values, or is not decided at all."""

    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"


TRUE, FALSE, UNKNOWN = Known.TRUE, Known.FALSE, Known.UNKNOWN


# Formulas never change, but for what they remember of themselves. They are not `attrs.frozen`, for
# that takes three times as long to make one, and shapes are evaluated to very many.


@attrs.define(unsafe_hash=True, cache_hash=True)
class Atom:
    """The comparison of hole `hole` holds for the value of `source`."""

    hole: int
    source: Source


@attrs.define(unsafe_hash=True, cache_hash=True)
class Check:
    """`source`, a bool, is true: the same for all queries of a template."""

    source: Computed


@attrs.define(unsafe_hash=True, cache_hash=True)
class Not:
    """`part` does not hold."""

    part: Formula


@attrs.define(unsafe_hash=True, cache_hash=True)
class _Joint:
    parts: tuple[Formula, ...]
    _decided: bool | None = attrs.field(default=None, init=False, eq=False, repr=False)

    @property
    def decided(self) -> bool:
        """Whether `UNKNOWN` is no part of it; found out once."""
        if self._decided is None:
            self._decided = all(map(is_decided, self.parts))
        return self._decided


@attrs.define(unsafe_hash=True, cache_hash=True)
class And(_Joint):
    """All parts hold; there are two or more, and none is an `And`, TRUE or FALSE."""


@attrs.define(unsafe_hash=True, cache_hash=True)
class Or(_Joint):
    """One of the parts holds; there are two or more, and none is an `Or`, TRUE or FALSE."""


Formula: TypeAlias = Known | Atom | Check | Not | And | Or


def all_of(parts: Iterable[Formula]) -> Formula:
    """The conjunction, simplified."""
    return _joined(parts, And, TRUE, FALSE)


def any_of(parts: Iterable[Formula]) -> Formula:
    """The disjunction, simplified."""
    return _joined(parts, Or, FALSE, TRUE)


def negation(part: Formula) -> Formula:
    """What holds when `part` does not."""
    match part:
        case Known.TRUE:
            return FALSE
        case Known.FALSE:
            return TRUE
        case Known.UNKNOWN:
            return UNKNOWN
        case Not(part=inner):
            return inner
        case _:
            return Not(part)


def same(one: Formula, other: Formula) -> Formula:
    """Both hold or neither does."""
    both = all_of((one, other))
    return any_of((both, all_of((negation(one), negation(other)))))


def is_decided(formula: Formula) -> bool:
    """Whether `UNKNOWN` is no part of it."""
    match formula:
        case Atom() | Check():
            return True
        case And() | Or():
            return formula.decided
        case Not(part=part):
            return is_decided(part)
        case Known():
            return formula is not UNKNOWN


def possible(formula: Formula) -> Formula:
    """A decided formula that holds whenever this one could: its necessary condition."""
    return _settled(formula, TRUE, FALSE)


def breadth(formula: Formula) -> int:
    """How many parts it has side by side: what it costs to make it a part of another."""
    match formula:
        case And(parts=parts) | Or(parts=parts):
            return len(parts)
        case _:
            return 1


def is_larger(formula: Formula, most: int) -> bool:
    """Whether it has more than `most` comparisons, equal ones counted each time."""
    found = 0
    left = [formula]
    while left:
        match left.pop():
            case Atom() | Check():
                found += 1
                if found > most:
                    return True
            case Not(part=part):
                left.append(part)
            case And(parts=parts) | Or(parts=parts):
                left += parts
    return False


Conjunction: TypeAlias = tuple[Atom | Check, ...]


def alternatives(formula: Formula, most: int) -> list[Conjunction] | None:
    """The formula as conjunctions of which one must hold (disjunctive normal form).

    None if it has a negation, or takes more than `most` conjunctions.
    """
    match formula:
        case Atom() | Check():
            return [(formula,)]
        case Or(parts=parts):
            found: list[Conjunction] = []
            for part in parts:
                inner = alternatives(part, most - len(found))
                if inner is None:
                    return None
                found += inner
            return found if len(found) <= most else None
        case And(parts=parts):
            plain = tuple(part for part in parts if isinstance(part, Atom | Check))
            if len(plain) == len(parts):
                return [plain]
            product: list[Conjunction] = [()]
            for part in parts:
                inner = alternatives(part, most)
                if inner is None or len(product) * len(inner) > most:
                    return None
                product = [before + after for before in product for after in inner]
            return product
        case _:
            return None


def weaker(
    formula: Formula, most: int, read: Callable[[Formula, int], list[Conjunction] | None]
) -> list[Conjunction] | None:
    """Conjunctions of which one must hold if the formula does, though the reverse may not be so.

    As `alternatives`, but parts of an `And` that would be too much are left out. `read` is it, or
    remembers what it gave; where one part is all that is left, the list is the one that it gave.
    """
    if not isinstance(formula, And):
        return read(formula, most)
    parts = [found for part in formula.parts if (found := read(part, most)) is not None]
    # Those that compare most at once tell most.
    parts.sort(key=lambda found: -min(map(len, found)))
    product: list[Conjunction] | None = None
    for part in parts:
        if product is None:
            product = part
        elif len(product) * len(part) <= most:
            product = [before + after for before in product for after in part]
    return product


def sources(formula: Formula) -> Iterator[Source]:
    """All sources, those of equal comparisons again each time."""
    match formula:
        case Atom(source=source) | Check(source=source):
            yield source
        case Not(part=part):
            yield from sources(part)
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                yield from sources(part)


def _joined(
    parts: Iterable[Formula], kind: type[And] | type[Or], neutral: Known, deciding: Known
) -> Formula:
    found: dict[Formula, None] = {}
    for part in parts:
        if part is deciding:
            return deciding
        if isinstance(part, kind):
            found.update(dict.fromkeys(part.parts))
        elif part is not neutral:
            found[part] = None
    if not found:
        return neutral
    if len(found) == 1:
        return next(iter(found))
    return kind(tuple(found))


def _settled(formula: Formula, instead: Known, opposite: Known) -> Formula:
    if is_decided(formula):
        return formula
    match formula:
        case Not(part=part):
            return negation(_settled(part, opposite, instead))
        case And(parts=parts):
            return all_of(_settled(part, instead, opposite) for part in parts)
        case Or(parts=parts):
            return any_of(_settled(part, instead, opposite) for part in parts)
        case _:
            return instead
