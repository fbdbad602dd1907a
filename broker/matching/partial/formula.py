"""When the documents of a shape match: formulas over comparisons of values with literals.

A formula holds for a document and for the literals of a query. `UNKNOWN` stands for what the shape
does not decide; `necessary_condition` turns it into a necessary condition.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import attrs

from broker.matching.partial.source import Computed, Source


class TruthValue(enum.Enum):
    """What does not depend on values, or is not decided at all."""

    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"


TRUE, FALSE, UNKNOWN = TruthValue.TRUE, TruthValue.FALSE, TruthValue.UNKNOWN


# Formulas never change, but for what they remember of themselves. They are not `attrs.frozen`, for
# that takes three times as long to make one, and shapes are evaluated to very many.


@attrs.define(unsafe_hash=True, cache_hash=True)
class Atom:
    """The comparison of hole `hole` holds for the value of `source`."""

    parameter: int
    source: Source


@attrs.define(unsafe_hash=True, cache_hash=True)
class BooleanAtom:
    """`source`, a bool, is true: the same for all queries of a template."""

    source: Computed


@attrs.define(unsafe_hash=True, cache_hash=True)
class Not:
    """`part` does not hold."""

    part: Formula


@attrs.define(unsafe_hash=True, cache_hash=True)
class _Connective:
    parts: tuple[Formula, ...]
    _is_decided: bool | None = attrs.field(default=None, init=False, eq=False, repr=False)

    @property
    def is_decided(self) -> bool:
        """Whether `UNKNOWN` is no part of it; found out once."""
        if self._is_decided is None:
            self._is_decided = all(map(is_decided, self.parts))
        return self._is_decided


@attrs.define(unsafe_hash=True, cache_hash=True)
class And(_Connective):
    """All parts hold; there are two or more, and none is an `And`, TRUE or FALSE."""


@attrs.define(unsafe_hash=True, cache_hash=True)
class Or(_Connective):
    """One of the parts holds; there are two or more, and none is an `Or`, TRUE or FALSE."""


Formula: TypeAlias = TruthValue | Atom | BooleanAtom | Not | And | Or


def all_of(parts: Iterable[Formula]) -> Formula:
    """The conjunction, simplified."""
    return _simplify(parts, And, TRUE, FALSE)


def any_of(parts: Iterable[Formula]) -> Formula:
    """The disjunction, simplified."""
    return _simplify(parts, Or, FALSE, TRUE)


def negate(part: Formula) -> Formula:
    """What holds when `part` does not."""
    match part:
        case TruthValue.TRUE:
            return FALSE
        case TruthValue.FALSE:
            return TRUE
        case TruthValue.UNKNOWN:
            return UNKNOWN
        case Not(part=inner):
            return inner
        case _:
            return Not(part)


def equivalence(one: Formula, other: Formula) -> Formula:
    """Both hold or neither does."""
    both = all_of((one, other))
    return any_of((both, all_of((negate(one), negate(other)))))


def is_decided(formula: Formula) -> bool:
    """Whether `UNKNOWN` is no part of it."""
    match formula:
        case Atom() | BooleanAtom():
            return True
        case And() | Or():
            return formula.is_decided
        case Not(part=part):
            return is_decided(part)
        case TruthValue():
            return formula is not UNKNOWN


def necessary_condition(formula: Formula) -> Formula:
    """A decided formula that holds whenever this one could: its necessary condition."""
    return _replace_unknown(formula, TRUE, FALSE)


def operand_count(formula: Formula) -> int:
    """How many parts it has side by side: what it costs to make it a part of another."""
    match formula:
        case And(parts=parts) | Or(parts=parts):
            return len(parts)
        case _:
            return 1


def has_more_atoms(formula: Formula, limit: int) -> bool:
    """Whether it has more than `most` comparisons, equal ones counted each time."""
    found = 0
    left = [formula]
    while left:
        match left.pop():
            case Atom() | BooleanAtom():
                found += 1
                if found > limit:
                    return True
            case Not(part=part):
                left.append(part)
            case And(parts=parts) | Or(parts=parts):
                left += parts
    return False


Conjunction: TypeAlias = tuple[Atom | BooleanAtom, ...]


def to_dnf(formula: Formula, limit: int) -> list[Conjunction] | None:
    """The formula as conjunctions of which one must hold (disjunctive normal form).

    None if it has a negation, or takes more than `most` conjunctions.
    """
    match formula:
        case Atom() | BooleanAtom():
            return [(formula,)]
        case Or(parts=parts):
            found: list[Conjunction] = []
            for part in parts:
                inner = to_dnf(part, limit - len(found))
                if inner is None:
                    return None
                found += inner
            return found if len(found) <= limit else None
        case And(parts=parts):
            plain = tuple(part for part in parts if isinstance(part, Atom | BooleanAtom))
            if len(plain) == len(parts):
                return [plain]
            product: list[Conjunction] = [()]
            for part in parts:
                inner = to_dnf(part, limit)
                if inner is None or len(product) * len(inner) > limit:
                    return None
                product = [before + after for before in product for after in inner]
            return product
        case _:
            return None


def weaken_to_dnf(
    formula: Formula, limit: int, read: Callable[[Formula, int], list[Conjunction] | None]
) -> list[Conjunction] | None:
    """Conjunctions of which one must hold if the formula does, though the reverse may not be so.

    As `to_dnf`, but parts of an `And` that would be too much are left out. `decode_interest` is it, or
    remembers what it gave; where one part is all that is left, the list is the one that it gave.
    """
    if not isinstance(formula, And):
        return read(formula, limit)
    parts = [found for part in formula.parts if (found := read(part, limit)) is not None]
    # Those that compare most at once tell most.
    parts.sort(key=lambda found: -min(map(len, found)))
    product: list[Conjunction] | None = None
    for part in parts:
        if product is None:
            product = part
        elif len(product) * len(part) <= limit:
            product = [before + after for before in product for after in part]
    return product


def iterate_sources(formula: Formula) -> Iterator[Source]:
    """All sources, those of equal comparisons again each time."""
    match formula:
        case Atom(source=source) | BooleanAtom(source=source):
            yield source
        case Not(part=part):
            yield from iterate_sources(part)
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                yield from iterate_sources(part)


def _simplify(
    parts: Iterable[Formula], kind: type[And] | type[Or], neutral: TruthValue, deciding: TruthValue
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


def _replace_unknown(formula: Formula, instead: TruthValue, opposite: TruthValue) -> Formula:
    if is_decided(formula):
        return formula
    match formula:
        case Not(part=part):
            return negate(_replace_unknown(part, opposite, instead))
        case And(parts=parts):
            return all_of(_replace_unknown(part, instead, opposite) for part in parts)
        case Or(parts=parts):
            return any_of(_replace_unknown(part, instead, opposite) for part in parts)
        case _:
            return instead
