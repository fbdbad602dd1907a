"""The parser's place among the tokens, and what it found out on its way."""

from __future__ import annotations

import attrs

from broker.errors import QueryTooExpensive
from broker.matching.query.lexer import Token, TokenKind, bad_query_at, tokenize
from broker.matching.query.limits import QueryLimits


@attrs.frozen(slots=True)
class Replacement:
    """Characters `start` to `end` of the text, and what to put there instead."""

    start: int
    end: int
    text: str


@attrs.define
class ParseInfo:
    """What the parser saw, for which nobody need walk the tree again.

    `prefixes` gives for each prefix the offset of its first use.
    `document_starts` are the slashes at the start of paths through the payload's document,
    `envelope_starts` the leading `/Mspaces:Event` steps, each with its replacement (see
    `addressing.py`). `text_calls` are pieces of calls that are rewritten (see `texts.py`), `sought`
    the characters of literals that are looked for in texts, in all. `outer_context` says that
    something reads the outermost context node.
    """

    variables: set[str] = attrs.field(factory=set)
    prefixes: dict[str, int] = attrs.field(factory=dict)
    document_replacements: list[Replacement] = attrs.field(factory=list)
    envelope_replacements: list[Replacement] = attrs.field(factory=list)
    call_replacements: list[Replacement] = attrs.field(factory=list)
    searched_characters: int = 0
    reads_outer_context: bool = False


class Cursor:
    """One token ahead, with the counters that bound nesting, steps and operators."""

    def __init__(self, text: str, limits: QueryLimits) -> None:
        self._rest = iter(tokenize(text))
        self.token = next(self._rest)
        """The token that comes next."""
        self._limits = limits
        self._bracket_depth = 0
        self._step_count = 0
        self._operator_count = 0
        self.predicate_depth = 0
        """How many predicates the cursor is in."""
        self.info = ParseInfo()

    def advance(self) -> Token:
        """The next token, moving behind it; END stays END."""
        token = self.token
        if token.kind is not TokenKind.END:
            self.token = next(self._rest)
        return token

    def accept(self, *kinds: TokenKind) -> Token | None:
        """The next token if it is of one of the kinds."""
        return self.advance() if self.token.kind in kinds else None

    def expect(self, kind: TokenKind, where: str) -> Token:
        """The next token, which must be of this kind; `BadQuery` says what stands there instead."""
        if self.token.kind is not kind:
            raise bad_query_at(
                f"expected {kind.value} {where}, found {self.token}", self.token.position
            )
        return self.advance()

    def open_bracket(self, position: int) -> None:
        """One bracket deeper; `QueryTooExpensive` when that is too deep."""
        self._bracket_depth += 1
        if self._bracket_depth > self._limits.max_nesting:
            raise too_expensive_at(
                f"brackets are nested more than {self._limits.max_nesting} deep", position
            )

    def close_bracket(self) -> None:
        """Out of a bracket again."""
        self._bracket_depth -= 1

    def count_step(self, position: int) -> None:
        """One step more; `QueryTooExpensive` when there are too many."""
        self._step_count += 1
        if self._step_count > self._limits.max_steps:
            raise too_expensive_at(f"more than {self._limits.max_steps} location steps", position)

    def count_operator(self, position: int) -> None:
        """One operator on another one's result; `QueryTooExpensive` when there are too many."""
        self._operator_count += 1
        if self._operator_count > self._limits.max_operators:
            raise too_expensive_at(
                f"more than {self._limits.max_operators} operators on the results of others",
                position,
            )


def too_expensive_at(message: str, position: int) -> QueryTooExpensive:
    """The error for what is too much at the offset `position`."""
    return QueryTooExpensive(f"{message}; make the query simpler", line=1, column=position + 1)
