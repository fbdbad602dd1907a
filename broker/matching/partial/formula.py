"""Residual formulas: conditions for the documents of a shape to match.

Atoms compare a document's values with a query's literals. `UNKNOWN` stands for undecided parts.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import attrs

from broker.matching.index.parameter import Literal, Parameter
from broker.matching.partial.source import Computed, Source


class TruthValue(enum.Enum):
    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"


TRUE, FALSE, UNKNOWN = TruthValue.TRUE, TruthValue.FALSE, TruthValue.UNKNOWN


# Formulas are immutable except for caches. They are not `attrs.frozen`, which takes three times as
# long to create, and there are very many.


@attrs.define(unsafe_hash=True, cache_hash=True)
class Atom:
    """The comparison of the template parameter `parameter` holds for the value of `source`."""

    parameter: int
    source: Source


@attrs.define(unsafe_hash=True, cache_hash=True)
class BooleanAtom:
    """`source`, a boolean, is true: the same for all queries of a template."""

    source: Computed


@attrs.define(unsafe_hash=True, cache_hash=True)
class Not:
    part: Formula


@attrs.define(unsafe_hash=True, cache_hash=True)
class _Connective:
    parts: tuple[Formula, ...]
    _is_decided: bool | None = attrs.field(default=None, init=False, eq=False, repr=False)

    @property
    def is_decided(self) -> bool:
        if self._is_decided is None:
            self._is_decided = all(map(is_decided, self.parts))
        return self._is_decided


@attrs.define(unsafe_hash=True, cache_hash=True)
class And(_Connective):
    """Two or more parts, none of them an `And`, TRUE or FALSE."""


@attrs.define(unsafe_hash=True, cache_hash=True)
class Or(_Connective):
    """Two or more parts, none of them an `Or`, TRUE or FALSE."""


Formula: TypeAlias = TruthValue | Atom | BooleanAtom | Not | And | Or


def all_of(parts: Iterable[Formula]) -> Formula:
    return _simplify(parts, And, TRUE, FALSE)


def any_of(parts: Iterable[Formula]) -> Formula:
    return _simplify(parts, Or, FALSE, TRUE)


def negate(part: Formula) -> Formula:
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
    both = all_of((one, other))
    return any_of((both, all_of((negate(one), negate(other)))))


def is_decided(formula: Formula) -> bool:
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
    """Return a decided formula that holds whenever this one could."""
    return _replace_unknown(formula, TRUE, FALSE)


def operand_count(formula: Formula) -> int:
    match formula:
        case And(parts=parts) | Or(parts=parts):
            return len(parts)
        case _:
            return 1


def has_more_atoms(formula: Formula, limit: int) -> bool:
    """Return True if it has more than `limit` atoms, duplicates included."""
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
    """Return the formula as a list of conjunctions of which one must hold.

    None if it contains a negation, or needs more than `limit` conjunctions.
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
    """Return the DNF of a formula that is implied by this one, or None.

    Parts of an `And` beyond `limit` are dropped. If one part remains, the result is the identical
    list from `read`, which is `to_dnf` or a cached form of it.
    """
    if not isinstance(formula, And):
        return read(formula, limit)
    parts = [found for part in formula.parts if (found := read(part, limit)) is not None]
    # Parts with longer conjunctions are more selective.
    parts.sort(key=lambda found: -min(map(len, found)))
    product: list[Conjunction] | None = None
    for part in parts:
        if product is None:
            product = part
        elif len(product) * len(part) <= limit:
            product = [before + after for before in product for after in part]
    return product


def iterate_sources(formula: Formula) -> Iterator[Source]:
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


def evaluate_formula(
    formula: Formula,
    parameters: Sequence[Parameter],
    literals: Sequence[Literal],
    value_of: Callable[[Source], Any],
) -> bool:
    """Return the formula's value; it must be decided."""
    match formula:
        case Atom(parameter=parameter, source=source):
            return parameters[parameter].test(value_of(source), literals[parameter])
        case BooleanAtom(source=source):
            return bool(value_of(source))
        case Not(part=part):
            return not evaluate_formula(part, parameters, literals, value_of)
        case And(parts=parts):
            return all(evaluate_formula(part, parameters, literals, value_of) for part in parts)
        case Or(parts=parts):
            return any(evaluate_formula(part, parameters, literals, value_of) for part in parts)
        case TruthValue():
            return formula is TRUE
