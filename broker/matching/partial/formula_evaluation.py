"""Evaluation of a residual formula for one query's literals and one document's values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker.matching.index.parameter import Literal, Parameter
from broker.matching.partial.formula import (
    TRUE,
    And,
    Atom,
    BooleanAtom,
    Formula,
    Not,
    Or,
    TruthValue,
)
from broker.matching.partial.source import Source


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
