"""The normal form of a query, in which one can be seen to imply another.

Prefixes are resolved, positions in the text forgotten, and what compares a node-set with a constant
says that there is a node whose value compares so. Formulas are hashable; equal ones mean the same.
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
    """`true()` or `false()`."""

    value: bool


@attrs.frozen(slots=True, cache_hash=True)
class Atom:
    """A value compared with a constant.

    `subject` is `SELF`, or the canonical text of a string or (`numeric`) a number. `operator` is a
    comparison, `starts-with` or `contains`. The constant is a number (never NaN) for `<` and its
    like, and says for `=` and `!=` how they compare.
    """

    subject: str
    numeric: bool
    operator: str
    constant: str | float
    implied: tuple[Formula, ...] = attrs.field(default=(), eq=False, repr=False)
    """What is true whenever it is."""


@attrs.frozen(slots=True, cache_hash=True)
class Opaque:
    """Anything else, by its canonical text; only itself and what it `needs` follow from it."""

    text: str
    implied: tuple[Formula, ...] = attrs.field(default=(), eq=False, repr=False)


@attrs.frozen(slots=True, cache_hash=True)
class Not:
    """Negation."""

    operand: Formula


@attrs.frozen(slots=True, cache_hash=True)
class Connective:
    """`and` or `or` of two or more different operands, in canonical order."""

    operator: str
    operands: tuple[Formula, ...]


@attrs.frozen(slots=True, cache_hash=True)
class PathStep:
    """A step to a child, an attribute or (`descendant`) anything below, and what holds there.

    `kind` is None for any node. `ordered` is the canonical text of all its predicates if one of
    them counts; those that do not count are among the `predicates` in any case.
    """

    descendant: bool
    kind: LabelKind | None
    namespace: str | None
    local: str | None
    predicates: tuple[Formula, ...] = ()
    positional_text: str = ""


@attrs.frozen(slots=True, cache_hash=True)
class Exists:
    """There is a node that the steps lead to."""

    origin: PathStart
    steps: tuple[PathStep, ...]


Formula: TypeAlias = Constant | Atom | Opaque | Not | Connective | Exists

TRUE = Constant(True)
FALSE = Constant(False)


def combine(operator: str, operands: list[Formula]) -> Formula:
    """The canonical `and` or `or` of any number of formulas."""
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
    """The operands of an `and`, or the formula alone."""
    if isinstance(formula, Connective) and formula.operator == "and":
        return formula.operands
    return () if formula == TRUE else (formula,)
