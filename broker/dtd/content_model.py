"""Check that content models are deterministic, as XML requires, and cheap to compile.

The time of libxml2's compilation grows with the cube of a model's size: 12 kB of `(a?, a?, ...)`
take more than a minute. So the automaton's size is computed first, from positions that may follow
each other (Glushkov).
"""

from __future__ import annotations

import re
from typing import Final

import attrs

#: Names in one model of elements, and in a mixed one; pairs of names that may follow each other, in
#: one model and in a whole DTD. Compilation stays below 1 s.
MAX_POSITIONS: Final = 512
MAX_MIXED: Final = 1_000
MAX_PAIRS: Final = 40_000
MAX_PAIRS_OF_DTD: Final = 200_000
MAX_NESTING: Final = 64


class UnusableModel(Exception):
    """Reason for rejecting a content model."""


@attrs.frozen
class _Part:
    """Possible first and last positions of a part."""

    nullable: bool
    first: frozenset[int]
    last: frozenset[int]


_TOKEN = re.compile(r"\(|\)[?*+]?|[|,]|[^()|,]+")


def count_pairs(model: str) -> int:
    """Return the pairs in the automaton of a canonical model.

    Raises `UnusableModel` if it is too large, too deep, or not deterministic. Other syntax errors
    are not checked.
    """
    if not model.startswith("("):
        return 0
    tokens = _TOKEN.findall(model)
    if tokens[1:2] == ["#PCDATA"]:
        if tokens.count("|") > MAX_MIXED:
            raise UnusableModel(f"more than {MAX_MIXED} names in mixed content")
        return 0
    automaton = _Automaton(tokens)
    whole = automaton.read_group(0)
    automaton.require_deterministic(whole.first)
    for follow in automaton.follow:
        automaton.require_deterministic(follow)
    return automaton.pairs


class _Automaton:
    def __init__(self, tokens: list[str]) -> None:
        self.names: list[str] = []
        self.follow: list[set[int]] = []
        self.pairs = 0
        self._tokens = tokens
        self._at = 0

    def read_group(self, depth: int) -> _Part:
        """The next token is the opening parenthesis."""
        if depth > MAX_NESTING:
            raise UnusableModel(f"groups are nested deeper than {MAX_NESTING}")
        self._next_token()
        parts = []
        separators = set()
        while True:
            inner = self._tokens[self._at : self._at + 1] == ["("]
            parts.append(
                self.read_group(depth + 1) if inner else self._read_name(self._next_token())
            )
            token = self._next_token()
            if token[0] == ")":
                break
            separators.add(token)
        if len(separators) > 1 or not separators <= {",", "|"}:
            raise UnusableModel("a group is neither a sequence nor a choice")
        return self._apply_occurrence(
            _join_choice(parts) if "|" in separators else self._join_sequence(parts), token
        )

    def require_deterministic(self, positions: frozenset[int] | set[int]) -> None:
        seen: set[str] = set()
        for name in (self.names[position] for position in sorted(positions)):
            if name in seen:
                raise UnusableModel(f"it is not deterministic: {name!r} could match two places")
            seen.add(name)

    def _next_token(self) -> str:
        if self._at >= len(self._tokens):
            raise UnusableModel("a group is not closed")
        self._at += 1
        return self._tokens[self._at - 1]

    def _read_name(self, token: str) -> _Part:
        position = len(self.names)
        if position >= MAX_POSITIONS:
            raise UnusableModel(f"more than {MAX_POSITIONS} names")
        self.names.append(token.rstrip("?*+"))
        self.follow.append(set())
        alone = frozenset({position})
        return self._apply_occurrence(_Part(False, alone, alone), token)

    def _apply_occurrence(self, part: _Part, token: str) -> _Part:
        if token[-1] in "*+":
            self._add_pairs(part.last, part.first)
        return attrs.evolve(part, nullable=True) if token[-1] in "*?" else part

    def _join_sequence(self, parts: list[_Part]) -> _Part:
        whole = parts[0]
        for part in parts[1:]:
            self._add_pairs(whole.last, part.first)
            whole = _Part(
                whole.nullable and part.nullable,
                whole.first | part.first if whole.nullable else whole.first,
                whole.last | part.last if part.nullable else part.last,
            )
        return whole

    def _add_pairs(self, before: frozenset[int], after: frozenset[int]) -> None:
        for position in before:
            known = len(self.follow[position])
            self.follow[position] |= after
            self.pairs += len(self.follow[position]) - known
            if self.pairs > MAX_PAIRS:
                raise UnusableModel(
                    f"more than {MAX_PAIRS} pairs of elements may follow each other"
                )


def _join_choice(parts: list[_Part]) -> _Part:
    return _Part(
        any(part.nullable for part in parts),
        frozenset().union(*(part.first for part in parts)),
        frozenset().union(*(part.last for part in parts)),
    )
