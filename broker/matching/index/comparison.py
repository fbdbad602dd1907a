"""All comparisons of a member in one expression of Python.

Members that a key leads to are compared one by one, with several parameters each; a call for each parameter
would cost several times the comparison. So the comparisons of a template become one function, as
`attrs` and `namedtuple` make theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, cast

from broker.matching.index.member import Member
from broker.matching.index.parameter import Operator

#: Compares members: called with pairs of a row and the members to compare there (None for no
#: members), with columns, and with a list that gets a row and a member for each that satisfies.
Compare: TypeAlias = Callable[
    [
        Iterable[tuple[int, Sequence[Member] | None]],
        Sequence[Sequence[Any]],
        list[tuple[int, Sequence[Member]]],
    ],
    None,
]

_EXPRESSIONS = {
    Operator.EQUAL: "v{0} == l[{0}]",
    Operator.NOT_EQUAL: "v{0} != l[{0}]",
    Operator.STARTS_WITH: "v{0}.startswith(l[{0}])",
    Operator.CONTAINS: "l[{0}] in v{0}",
    Operator.NUMBER_EQUAL: "v{0} == l[{0}]",
    Operator.NUMBER_NOT_EQUAL: "v{0} != l[{0}]",
    Operator.LESS: "v{0} < l[{0}]",
    Operator.LESS_EQUAL: "v{0} <= l[{0}]",
    Operator.GREATER: "v{0} > l[{0}]",
    Operator.GREATER_EQUAL: "v{0} >= l[{0}]",
}


def compile_comparison(operators: Iterable[tuple[int, Operator]]) -> Compare:
    """The function for the parameters at these positions; the other parameters are not looked at."""
    return _compile(tuple(operators))


@lru_cache(maxsize=1024)
def _compile(operators: tuple[tuple[int, Operator], ...]) -> Compare:
    columns = "".join(f"    c{at} = columns[{at}]\n" for at, _ in operators)
    values = "".join(f"        v{at} = c{at}[row]\n" for at, _ in operators)
    tests = " and ".join(_EXPRESSIONS[operator].format(at) for at, operator in operators)
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
    # Made of numbers and the operators above alone: nothing of a query is in it.
    exec(compile(source, "<comparisons>", "exec"), names)
    return cast(Compare, names["compare"])
