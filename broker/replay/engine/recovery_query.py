"""A query as it is asked of recovery events: `$Liveness` has one value for all of them (DESIGN 5).

So it is no variable any more. The variable is replaced in the text, at the places where the query's
tree has it, and the text is read again: index and lxml then see a literal, and need no rule for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import attrs

from broker.event.envelope import Liveness
from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import Query, parse_query
from broker.matching.query.tree import Expression, Variable, predicates_of, subexpressions_of

_NAME: Final = "Liveness"
_VARIABLE_CHARS: Final = len(f"${_NAME}")
_LITERAL: Final = f"'{Liveness.RECOVERY.value}'"
#: Distinct queries that are remembered: more than a job has, as a rule.
_CACHE_SIZE: Final = 16_384


def bind_liveness(query: Query, limits: QueryLimits = QueryLimits()) -> Query:
    """The query as it is to be asked of recovery events; itself if it does not ask for liveness."""
    if _NAME not in query.variables:
        return query
    text = query.text
    for position in sorted(_variable_positions(query.expression), reverse=True):
        text = text[:position] + _LITERAL + text[position + _VARIABLE_CHARS :]
    # The literal is longer by a character, and the query was short enough.
    room = attrs.evolve(limits, max_length=max(limits.max_length, len(text)))
    return parse_query(text, dict(query.namespaces), room)


@lru_cache(maxsize=_CACHE_SIZE)
def parse_recovery_query(text: str, namespaces: tuple[tuple[str, str], ...]) -> Query:
    """The query that a request asks, as it is to be asked; raises `BadQuery`."""
    return bind_liveness(parse_query(text, dict(namespaces)))


def _variable_positions(expression: Expression) -> Iterator[int]:
    pending = [expression]
    while pending:
        each = pending.pop()
        if isinstance(each, Variable) and each.name == _NAME:
            yield each.position
        pending += [*subexpressions_of(each), *predicates_of(each)]
