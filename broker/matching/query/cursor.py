"""The parser's place among the tokens, and what it found out on its way."""

from __future__ import annotations

import attrs

from broker.errors import QueryTooExpensive
from broker.matching.query.lexer import Kind, Token, bad_query, tokens
from broker.matching.query.limits import QueryLimits


@attrs.frozen(slots=True)
class Replacement:
    """Characters `start` to `end` of the text, and what to put there instead."""

    start: int
    end: int
    text: str


@attrs.define
class Findings:
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
    document_starts: list[Replacement] = attrs.field(factory=list)
    envelope_starts: list[Replacement] = attrs.field(factory=list)
    text_calls: list[Replacement] = attrs.field(factory=list)
    sought: int = 0
    outer_context: bool = False


class Cursor:
    """One token ahead, with the counters that bound nesting, steps and operators."""

    def __init__(self, text: str, limits: QueryLimits) -> None:
        self._rest = iter(tokens(text))
        self.token = next(self._rest)
        """The token that comes next."""
        self._limits = limits
        self._nesting = 0
        self._steps = 0
        self._operators = 0
        self.predicates = 0
        """How many predicates the cursor is in."""
        self.findings = Findings()

    def take(self) -> Token:
        """The next token, moving behind it; END stays END."""
        token = self.token
        if token.kind is not Kind.END:
            self.token = next(self._rest)
        return token

    def take_if(self, *kinds: Kind) -> Token | None:
        """The next token if it is of one of the kinds."""
        return self.take() if self.token.kind in kinds else None

    def expect(self, kind: Kind, where: str) -> Token:
        """The next token, which must be of this kind; `BadQuery` says what stands there instead."""
        if self.token.kind is not kind:
            raise bad_query(
                f"expected {kind.value} {where}, found {self.token}", self.token.position
            )
        return self.take()

    def enter(self, position: int) -> None:
        """One bracket deeper; `QueryTooExpensive` when that is too deep."""
        self._nesting += 1
        if self._nesting > self._limits.max_nesting:
            raise too_expensive(
                f"brackets are nested more than {self._limits.max_nesting} deep", position
            )

    def leave(self) -> None:
        """Out of a bracket again."""
        self._nesting -= 1

    def count_step(self, position: int) -> None:
        """One step more; `QueryTooExpensive` when there are too many."""
        self._steps += 1
        if self._steps > self._limits.max_steps:
            raise too_expensive(f"more than {self._limits.max_steps} location steps", position)

    def count_operator(self, position: int) -> None:
        """One operator on another one's result; `QueryTooExpensive` when there are too many."""
        self._operators += 1
        if self._operators > self._limits.max_operators:
            raise too_expensive(
                f"more than {self._limits.max_operators} operators on the results of others",
                position,
            )


def too_expensive(message: str, position: int) -> QueryTooExpensive:
    """The error for what is too much at the offset `position`."""
    return QueryTooExpensive(f"{message}; make the query simpler", line=1, column=position + 1)
