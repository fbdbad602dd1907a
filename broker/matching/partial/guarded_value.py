"""Values that depend on conditions.

`string(//leg[altitude > 300])` is the text of one of the legs. So a value is a list of cases, of
which exactly one holds in a document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from broker.matching.partial.formula import FALSE, TRUE, UNKNOWN, BooleanAtom, Formula, all_of
from broker.matching.partial.source import Computed, Constant, Source, computed
from broker.matching.partial.work_budget import Undecidable

#: (condition, source); exactly one condition holds.
GuardedValue: TypeAlias = Sequence[tuple[Formula, Source]]

#: Cases of one value; with more, the value is undecidable.
MAX_CASES = 64
TOO_MANY_CASES = f"a value has more than {MAX_CASES} cases"


def unguarded(source: Source) -> GuardedValue:
    return ((TRUE, source),)


def unguarded_constant(value: Any) -> GuardedValue:
    return unguarded(Constant(value))


def apply_function(function: Callable[..., Any], *arguments: GuardedValue) -> GuardedValue:
    if all(len(argument) == 1 and argument[0][0] is TRUE for argument in arguments):
        return unguarded(computed(function, *[argument[0][1] for argument in arguments]))
    combined: list[tuple[Formula, tuple[Source, ...]]] = [(TRUE, ())]
    for argument in arguments:
        if len(combined) * len(argument) > MAX_CASES:
            raise Undecidable(TOO_MANY_CASES)
        combined = [
            (guard, (*before, source))
            for condition, before in combined
            for when, source in argument
            if (guard := all_of((condition, when))) is not FALSE
        ]
    return [(guard, computed(function, *sources)) for guard, sources in combined]


def truth_formula(source: Source) -> Formula:
    if isinstance(source, Constant):
        return TRUE if source.value else FALSE
    if isinstance(source, Computed):
        return BooleanAtom(source)
    return UNKNOWN
