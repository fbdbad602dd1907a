"""Comparison of all members of a template with a document, before an index has them.

The document's values make the formula a condition on literals, which becomes a generated function.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any, cast

from broker.matching.index.comparison import format_test
from broker.matching.index.member import Member
from broker.matching.index.parameter import Operator, Parameter
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

#: Comparisons per member, of which an `and` counts its longest part. A comparison takes some 50 ns.
#: To index a member takes 1 us to 10 us, once.
MAX_COMPARISONS_A_MEMBER = 16
#: Python's own limit is 200 nested ones.
_MAX_BRACKETS = 150

#: The value that satisfies a parameter if any of several values does.
_STRONGEST_VALUE: dict[Operator, Callable[[Sequence[Any]], Any]] = {
    Operator.LESS: min,
    Operator.LESS_EQUAL: min,
    Operator.GREATER: max,
    Operator.GREATER_EQUAL: max,
}

_Select = Callable[[Collection[Member], Sequence[Any]], list[Member]]


def scan_members(
    formula: Formula,
    parameters: Sequence[Parameter],
    members: Collection[Member],
    value_of: Callable[[Source], Any],
) -> list[Member] | None:
    """Return the members for which a decided formula holds; None after too many comparisons."""
    writer = _ConditionWriter(parameters, value_of)
    condition, comparisons = writer.write(formula)
    if comparisons > MAX_COMPARISONS_A_MEMBER or condition.count("(") > _MAX_BRACKETS:
        return None
    return _compile(condition)(members, writer.values)


@lru_cache(maxsize=256)
def _compile(condition: str) -> _Select:
    # The condition contains numbers and operators only, nothing of a query or a document.
    return cast(
        _Select,
        eval(f"lambda members, v: [m for m in members for l in (m.literals,) if {condition}]"),
    )


class _ConditionWriter:
    """Writes a formula as a condition on the literals `l` and the document's values `v`."""

    def __init__(self, parameters: Sequence[Parameter], value_of: Callable[[Source], Any]) -> None:
        self._parameters = parameters
        self._value_of = value_of
        self.values: list[Any] = []

    def write(self, formula: Formula) -> tuple[str, int]:
        """Return the condition, and the comparisons that it takes."""
        match formula:
            case Atom(parameter=parameter, source=source):
                return self._write_any(parameter, [source])
            case BooleanAtom(source=source):
                return str(bool(self._value_of(source))), 0
            case Not(part=part):
                condition, comparisons = self.write(part)
                return f"not ({condition})", comparisons
            case And(parts=parts):
                conditions, counts = zip(*map(self.write, parts), strict=True)
                return f"({' and '.join(conditions)})", max(counts)
            case Or(parts=parts):
                # First the comparisons that each part makes, of one parameter together.
                conditions, counts = zip(
                    *[self._write_any(*each) for each in _common_comparisons(parts).items()],
                    self._write_or(parts),
                    strict=True,
                )
                return f"({' and '.join(conditions)})", max(counts)
            case TruthValue():
                return str(formula is TRUE), 0

    def _write_or(self, parts: Sequence[Formula]) -> tuple[str, int]:
        by_parameter: dict[int, list[Source]] = {}
        for part in parts:
            if isinstance(part, Atom):
                by_parameter.setdefault(part.parameter, []).append(part.source)
        written = [self._write_any(*each) for each in by_parameter.items()]
        written += [self.write(part) for part in parts if not isinstance(part, Atom)]
        conditions, counts = zip(*written, strict=True)
        return f"({' or '.join(conditions)})", sum(counts)

    def _write_any(self, number: int, sources: Sequence[Source]) -> tuple[str, int]:
        """Write that the parameter's comparison holds for one of the sources."""
        parameter = self._parameters[number]
        values = list(dict.fromkeys(map(self._value_of, sources)))
        if len(values) > 1 and (parameter.is_equality or parameter.is_threshold):
            # NaN satisfies no equality and no threshold.
            values = [value for value in values if value == value]
            if parameter.is_equality:
                self.values.append(set(values))
                return f"l[{number}] in v[{len(self.values) - 1}]", 1
            values = [_STRONGEST_VALUE[parameter.operator](values)] if values else []
        first = len(self.values)
        self.values += values
        places = range(first, len(self.values))
        tests = [format_test(parameter.operator, f"v[{at}]", f"l[{number}]") for at in places]
        return f"({' or '.join(tests)})" if tests else "False", len(tests)


def _common_comparisons(parts: Sequence[Formula]) -> dict[int, list[Source]]:
    """Return the sources of each parameter that every part of an `or`, each an `and`, compares."""
    atoms = [
        [each for each in (part.parts if isinstance(part, And) else ()) if isinstance(each, Atom)]
        for part in parts
    ]
    numbers = set.intersection(*({each.parameter for each in some} for some in atoms))
    return {
        number: [each.source for some in atoms for each in some if each.parameter == number]
        for number in sorted(numbers)
    }
