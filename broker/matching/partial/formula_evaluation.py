"""Whether a formula holds for the literals of one query and the values of one document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker.matching.index.holes import Hole, Literal
from broker.matching.partial.formula import TRUE, And, Atom, Check, Formula, Known, Not, Or
from broker.matching.partial.source import Source


def holds(
    formula: Formula,
    holes: Sequence[Hole],
    literals: Sequence[Literal],
    value_of: Callable[[Source], Any],
) -> bool:
    """The formula's value; it must be decided."""
    match formula:
        case Atom(hole=hole, source=source):
            return holes[hole].test(value_of(source), literals[hole])
        case Check(source=source):
            return bool(value_of(source))
        case Not(part=part):
            return not holds(part, holes, literals, value_of)
        case And(parts=parts):
            return all(holds(part, holes, literals, value_of) for part in parts)
        case Or(parts=parts):
            return any(holds(part, holes, literals, value_of) for part in parts)
        case Known():
            return formula is TRUE
