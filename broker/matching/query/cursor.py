"""Cursor over the tokens of a query, and the facts that the parser collects."""

from __future__ import annotations

import attrs

from broker.errors import QueryTooExpensive
from broker.matching.query.lexer import Token, TokenKind, bad_query_at, tokenize
from broker.matching.query.limits import QueryLimits


@attrs.frozen(slots=True)
class Replacement:
    start: int
    end: int
    text: str


@attrs.define
class ParseInfo:
    """Facts collected while parsing, so that later stages need no walk over the tree.

    `prefixes` have the offset of their first use, `unprefixed` those of all element names without
    one. Replacements make the text for lxml (`query.py`).
    `searched_characters` is the length of the literals that libxml2 searches for.
    `reads_outer_context`: an expression outside predicates reads the context node.
    """

    variables: set[str] = attrs.field(factory=set)
    prefixes: dict[str, int] = attrs.field(factory=dict)
    unprefixed: list[int] = attrs.field(factory=list)
    document_replacements: list[Replacement] = attrs.field(factory=list)
    envelope_replacements: list[Replacement] = attrs.field(factory=list)
    call_replacements: list[Replacement] = attrs.field(factory=list)
    searched_characters: int = 0
    reads_outer_context: bool = False


class Cursor:
    """One token of lookahead, and counters for brackets, steps and operators.

    The counters raise `QueryTooExpensive` beyond the limits.
    """

    def __init__(self, text: str, limits: QueryLimits) -> None:
        self._rest = iter(tokenize(text))
        self.token = next(self._rest)
        self._limits = limits
        self._bracket_depth = 0
        self._step_count = 0
        self._operator_count = 0
        self.predicate_depth = 0
        self.info = ParseInfo()

    def advance(self) -> Token:
        """Return the next token and move behind it, but never behind END."""
        token = self.token
        if token.kind is not TokenKind.END:
            self.token = next(self._rest)
        return token

    def accept(self, *kinds: TokenKind) -> Token | None:
        return self.advance() if self.token.kind in kinds else None

    def expect(self, kind: TokenKind, where: str) -> Token:
        if self.token.kind is not kind:
            raise bad_query_at(
                f"expected {kind.value} {where}, found {self.token}", self.token.position
            )
        return self.advance()

    def open_bracket(self, position: int) -> None:
        self._bracket_depth += 1
        if self._bracket_depth > self._limits.max_nesting:
            raise too_expensive_at(
                f"brackets are nested more than {self._limits.max_nesting} deep", position
            )

    def close_bracket(self) -> None:
        self._bracket_depth -= 1

    def count_step(self, position: int) -> None:
        self._step_count += 1
        if self._step_count > self._limits.max_steps:
            raise too_expensive_at(f"more than {self._limits.max_steps} location steps", position)

    def count_operator(self, position: int) -> None:
        self._operator_count += 1
        if self._operator_count > self._limits.max_operators:
            raise too_expensive_at(
                f"more than {self._limits.max_operators} operators on the results of others",
                position,
            )


def too_expensive_at(message: str, position: int) -> QueryTooExpensive:
    return QueryTooExpensive(f"{message}; make the query simpler", line=1, column=position + 1)
