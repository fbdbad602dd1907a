"""Queries on recovery events, for which `$Liveness` is constant (DESIGN 5).

A literal replaces the variable in the text, so the index and lxml need no rule for it.
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
#: Usually more than a job has.
_CACHE_SIZE: Final = 16_384


def bind_liveness(query: Query, limits: QueryLimits = QueryLimits()) -> Query:
    """Return the same object if the query has no `$Liveness`."""
    if _NAME not in query.variables:
        return query
    text = query.text
    for position in sorted(_variable_positions(query.expression), reverse=True):
        text = text[:position] + _LITERAL + text[position + _VARIABLE_CHARS :]
    # The literal is longer, and the query was within its limit.
    room = attrs.evolve(limits, max_length=max(limits.max_length, len(text)))
    return parse_query(text, dict(query.namespaces), room)


@lru_cache(maxsize=_CACHE_SIZE)
def parse_recovery_query(text: str, namespaces: tuple[tuple[str, str], ...]) -> Query:
    """Raises `BadQuery`."""
    return bind_liveness(parse_query(text, dict(namespaces)))


def _variable_positions(expression: Expression) -> Iterator[int]:
    pending = [expression]
    while pending:
        each = pending.pop()
        if isinstance(each, Variable) and each.name == _NAME:
            yield each.position
        pending += [*subexpressions_of(each), *predicates_of(each)]
