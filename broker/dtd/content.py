"""Possible contents of elements by their content models, without order and number."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import attrs

_TOKEN: Final = re.compile(r"\(|\)[?*+]?|[|,]|[^()|,]+")
_NONE: Final[frozenset[str]] = frozenset()
_Clauses: TypeAlias = frozenset[frozenset[str]]
_NO_CLAUSES: Final[_Clauses] = frozenset()


@attrs.frozen
class Content:
    children: frozenset[str] = _NONE
    #: Qualified names; those of `ANY` are not listed.

    one_of: frozenset[frozenset[str]] = frozenset()
    #: At least one element of each set occurs.

    has_text: bool = False
    #: Not only white space.

    any: bool = False
    #: All declared elements.

    empty: bool = False
    #: Not even white space.

    @property
    def required(self) -> frozenset[str]:
        return _NONE.union(*(names for names in self.one_of if len(names) == 1))


def parse_contents(text: str) -> dict[str, Content]:
    found = {}
    for declaration in text.split("\n"):
        keyword, _, rest = declaration.partition(" ")
        if keyword == "<!ELEMENT":
            name, _, model = rest[:-1].partition(" ")
            found[name] = parse_model(model)
    return found


def parse_model(model: str) -> Content:
    """Parse a canonical model; groups may be nested 64 deep."""
    if not model.startswith("("):
        return Content(has_text=model == "ANY", any=model == "ANY", empty=model == "EMPTY")
    tokens = _TOKEN.findall(model)
    if tokens[1] == "#PCDATA":
        names = frozenset(token for token in tokens[2:] if token[0] not in ")|")
        return Content(names, has_text=True)
    names, one_of, _ = _parse_group(tokens, 0)
    return Content(names, one_of)


def _parse_group(tokens: list[str], at: int) -> tuple[frozenset[str], _Clauses, int]:
    """Return (names, required sets, next token)."""
    names: set[str] = set()
    parts: list[_Clauses] = []
    choice = False
    at += 1
    while tokens[at][0] != ")":
        token = tokens[at]
        if token == "(":
            inner, needed, at = _parse_group(tokens, at)
            names |= inner
            parts.append(needed)
            continue
        at += 1
        if token in (",", "|"):
            choice = choice or token == "|"
            continue
        name = token.rstrip("?*+")
        names.add(name)
        parts.append(_NO_CLAUSES if token[-1] in "?*" else frozenset({frozenset({name})}))
    if tokens[at][-1] in "?*":
        return frozenset(names), _NO_CLAUSES, at + 1
    return frozenset(names), _combine_choice(parts) if choice else _NO_CLAUSES.union(*parts), at + 1


def _combine_choice(parts: list[_Clauses]) -> _Clauses:
    """Return sets that each alternative satisfies."""
    shared = parts[0].intersection(*parts)
    if not all(parts):
        return shared
    return shared | {_NONE.union(*(min(part, key=len) for part in parts))}
