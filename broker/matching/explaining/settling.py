"""A formula with one query's literals put in: what a shape's constants decide for the query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from broker.matching.partial.formula import (
    FALSE,
    TRUE,
    And,
    Atom,
    Check,
    Formula,
    Known,
    Not,
    Or,
    all_of,
    any_of,
    negation,
)
from broker.matching.partial.source import Computed, Constant, Slot, Source
from broker.matching.partial.template import Instance


@attrs.frozen(slots=True)
class Compared:
    """A comparison that still matters: which hole, which slot, and whether that is a constant.

    `slot` is None where a constant is compared of which only the value is known.
    """

    hole: int
    slot: int | None
    constant: bool


@attrs.frozen
class Settled:
    """The formula that is left, and the comparisons that it rests on."""

    formula: Formula
    compared: tuple[Compared, ...]


def settle(
    formula: Formula, instance: Instance, constants: Mapping[int, Any] | None = None
) -> Settled:
    """Put literals into a formula; `constants` are the values of slots that have one."""
    return _Settling(instance, constants or {}).settle(formula)


class _Settling:
    def __init__(self, instance: Instance, constants: Mapping[int, Any]) -> None:
        self._holes = instance.template.holes
        self._literals = instance.literals
        self._constants = constants

    def settle(self, formula: Formula) -> Settled:
        match formula:
            case Known():
                return Settled(formula, ())
            case Atom(hole=hole, source=source):
                return self._settle_atom(formula, hole, source)
            case Check(source=source):
                if not self._is_constant(source):
                    return Settled(formula, ())
                return Settled(TRUE if self._value(source) else FALSE, ())
            case Not(part=part):
                settled = self.settle(part)
                return Settled(negation(settled.formula), settled.compared)
            case And(parts=parts):
                each = [self.settle(part) for part in parts]
                whole = all_of(settled.formula for settled in each)
            case Or(parts=parts):
                each = [self.settle(part) for part in parts]
                whole = any_of(settled.formula for settled in each)
                each = [settled for settled in each if settled.formula is not FALSE]
        return Settled(whole, tuple(pair for settled in each for pair in settled.compared))

    def _settle_atom(self, atom: Atom, hole: int, source: Source) -> Settled:
        slots = tuple(slots_of(source))
        compared = tuple(Compared(hole, slot, slot in self._constants) for slot in slots)
        if not self._is_constant(source):
            return Settled(atom, compared)
        holds = self._holes[hole].test(self._value(source), self._literals[hole])
        return Settled(TRUE if holds else FALSE, compared or (Compared(hole, None, True),))

    def _is_constant(self, source: Source) -> bool:
        return all(slot in self._constants for slot in slots_of(source))

    def _value(self, source: Source) -> Any:
        match source:
            case Slot(number=number):
                return self._constants[number]
            case Constant(value=value):
                return value
            case Computed(function=function, arguments=arguments):
                return function(*(self._value(argument) for argument in arguments))


def slots_of(source: Source) -> Iterator[int]:
    """The slots that a value is made of."""
    match source:
        case Slot(number=number):
            yield number
        case Computed(arguments=arguments):
            for argument in arguments:
                yield from slots_of(argument)
        case Constant():
            pass
