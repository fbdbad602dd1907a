"""Generated functions that compare members with rows.

A call for each parameter would cost several times the comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, cast

from broker.matching.index.member import Columns, Member
from broker.matching.index.parameter import Operator, Parameter

#: Called with pairs of a row and its candidates (or None), the columns, and a list. It appends a
#: pair of row and member for each match.
Compare: TypeAlias = Callable[
    [
        Iterable[tuple[int, Sequence[Member] | None]],
        Columns,
        list[tuple[int, Sequence[Member]]],
    ],
    None,
]


def compile_comparison(parameters: Mapping[int, Parameter]) -> Compare:
    return _compile(tuple((at, parameter.operator) for at, parameter in parameters.items()))


@lru_cache(maxsize=1024)
def _compile(operators: tuple[tuple[int, Operator], ...]) -> Compare:
    columns = "".join(f"    c{at} = columns[{at}]\n" for at, _ in operators)
    values = "".join(f"        v{at} = c{at}[row]\n" for at, _ in operators)
    tests = " and ".join(format_test(operator, f"v{at}", f"l[{at}]") for at, operator in operators)
    source = (
        "def compare(pairs, columns, found):\n"
        f"{columns}"
        "    for row, members in pairs:\n"
        "        if members is None:\n"
        "            continue\n"
        f"{values}"
        "        for member in members:\n"
        "            l = member.literals\n"
        f"            if {tests or True}:\n"
        "                found.append((row, (member,)))\n"
    )
    names: dict[str, Any] = {}
    # The source contains numbers and the operators above only, nothing of a query.
    exec(compile(source, "<comparisons>", "exec"), names)
    return cast(Compare, names["compare"])


def format_test(operator: Operator, value: str, literal: str) -> str:
    if operator is Operator.STARTS_WITH:
        return f"{value}.startswith({literal})"
    if operator is Operator.CONTAINS:
        return f"{literal} in {value}"
    sign = operator.value.removeprefix("text ")
    return f"{value} {'==' if sign == '=' else sign} {literal}"
