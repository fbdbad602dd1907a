"""Normal form of queries, for the test of implication.

A comparison of a node-set with a constant becomes the existence of a node with such a value. Equal
formulas are equivalent.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from broker.matching.paths.pattern import LabelKind
from broker.matching.query.tree import PathStart

#: The subject of an atom about the context node's string-value.
SELF = "."


@attrs.frozen(slots=True, cache_hash=True)
class Constant:
    value: bool


@attrs.frozen(slots=True, cache_hash=True)
class Atom:
    """A comparison of a value with a constant.

    `subject` is `SELF`, or the canonical text of a string or (`numeric`) a number. `operator` is a
    comparison, `starts-with` or `contains`. An order comparison has a number, never NaN. For `=`
    and `!=` the constant's type decides how values are compared.
    """

    subject: str
    numeric: bool
    operator: str
    constant: str | float
    implied: tuple[Formula, ...] = attrs.field(default=(), eq=False, repr=False)
    """Formulas that are true whenever this one is."""


@attrs.frozen(slots=True, cache_hash=True)
class Opaque:
    """Any other expression, by its canonical text. It implies only itself and `implied`."""

    text: str
    implied: tuple[Formula, ...] = attrs.field(default=(), eq=False, repr=False)


@attrs.frozen(slots=True, cache_hash=True)
class Not:
    operand: Formula


@attrs.frozen(slots=True, cache_hash=True)
class Connective:
    """`and` or `or` of two or more different operands, in canonical order."""

    operator: str
    operands: tuple[Formula, ...]


@attrs.frozen(slots=True, cache_hash=True)
class PathStep:
    """A step to a child, an attribute or (`descendant`) anything below, with its predicates.

    `kind` is None for any node. `positional_text` is the canonical text of all predicates if one
    depends on the position; the others are in `predicates` too.
    """

    descendant: bool
    kind: LabelKind | None
    namespace: str | None
    local: str | None
    predicates: tuple[Formula, ...] = ()
    positional_text: str = ""


@attrs.frozen(slots=True, cache_hash=True)
class Exists:
    origin: PathStart
    steps: tuple[PathStep, ...]


Formula: TypeAlias = Constant | Atom | Opaque | Not | Connective | Exists

TRUE = Constant(True)
FALSE = Constant(False)


def combine(operator: str, operands: list[Formula]) -> Formula:
    decisive = Constant(operator == "or")
    flat: set[Formula] = set()
    for each in operands:
        flat.update(
            each.operands if isinstance(each, Connective) and each.operator == operator else (each,)
        )
    if decisive in flat:
        return decisive
    flat.discard(Constant(not decisive.value))
    if not flat:
        return Constant(not decisive.value)
    if len(flat) == 1:
        return flat.pop()
    return Connective(operator, tuple(sorted(flat, key=repr)))


def conjuncts(formula: Formula) -> tuple[Formula, ...]:
    if isinstance(formula, Connective) and formula.operator == "and":
        return formula.operands
    return () if formula == TRUE else (formula,)
