"""Substitutes the literals of one query in a formula, which decides comparisons with constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from broker.matching.partial.formula import (
    FALSE,
    TRUE,
    And,
    Atom,
    BooleanAtom,
    Formula,
    Not,
    Or,
    TruthValue,
    all_of,
    any_of,
    negate,
)
from broker.matching.partial.source import Computed, Constant, Slot, Source
from broker.matching.partial.template import TemplateInstance


@attrs.frozen(slots=True)
class RemainingComparison:
    """A comparison that still matters: parameter, slot, and whether that is a constant.

    `slot` is None for a constant whose location is unknown.
    """

    parameter: int
    slot: int | None
    constant: bool


@attrs.frozen
class SubstitutedFormula:
    """The remaining formula and its comparisons."""

    formula: Formula
    comparisons: tuple[RemainingComparison, ...]


def substitute_literals(
    formula: Formula, instance: TemplateInstance, constants: Mapping[int, Any] | None = None
) -> SubstitutedFormula:
    return _Substitution(instance, constants or {}).substitute(formula)


class _Substitution:
    def __init__(self, instance: TemplateInstance, constants: Mapping[int, Any]) -> None:
        self._parameters = instance.template.parameters
        self._literals = instance.literals
        self._constants = constants

    def substitute(self, formula: Formula) -> SubstitutedFormula:
        match formula:
            case TruthValue():
                return SubstitutedFormula(formula, ())
            case Atom(parameter=parameter, source=source):
                return self._substitute_atom(formula, parameter, source)
            case BooleanAtom(source=source):
                if not self._is_constant(source):
                    return SubstitutedFormula(formula, ())
                return SubstitutedFormula(TRUE if self._value(source) else FALSE, ())
            case Not(part=part):
                result = self.substitute(part)
                return SubstitutedFormula(negate(result.formula), result.comparisons)
            case And(parts=parts):
                each = [self.substitute(part) for part in parts]
                whole = all_of(result.formula for result in each)
            case Or(parts=parts):
                each = [self.substitute(part) for part in parts]
                whole = any_of(result.formula for result in each)
                each = [result for result in each if result.formula is not FALSE]
        return SubstitutedFormula(
            whole, tuple(pair for result in each for pair in result.comparisons)
        )

    def _substitute_atom(self, atom: Atom, parameter: int, source: Source) -> SubstitutedFormula:
        slots = tuple(iterate_slots(source))
        compared = tuple(
            RemainingComparison(parameter, slot, slot in self._constants) for slot in slots
        )
        if not self._is_constant(source):
            return SubstitutedFormula(atom, compared)
        holds = self._parameters[parameter].test(self._value(source), self._literals[parameter])
        return SubstitutedFormula(
            TRUE if holds else FALSE, compared or (RemainingComparison(parameter, None, True),)
        )

    def _is_constant(self, source: Source) -> bool:
        return all(slot in self._constants for slot in iterate_slots(source))

    def _value(self, source: Source) -> Any:
        match source:
            case Slot(number=number):
                return self._constants[number]
            case Constant(value=value):
                return value
            case Computed(function=function, arguments=arguments):
                return function(*(self._value(argument) for argument in arguments))


def iterate_slots(source: Source) -> Iterator[int]:
    match source:
        case Slot(number=number):
            yield number
        case Computed(arguments=arguments):
            for argument in arguments:
                yield from iterate_slots(argument)
        case Constant():
            pass
