"""What a content model lets an element contain, without order and number."""

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
    """The content of one element, read from its model."""

    children: frozenset[str] = _NONE
    #: Qualified names of the elements that it may contain. Those of `ANY` are not listed.

    one_of: frozenset[frozenset[str]] = frozenset()
    #: It contains at least one element of each of these sets, whatever else it does.

    has_text: bool = False
    #: It may contain text, not just white space between elements.

    any: bool = False
    #: It may contain all elements that the DTD declares.

    empty: bool = False
    #: It contains nothing, not even white space.

    @property
    def required(self) -> frozenset[str]:
        """Those that it contains at least once."""
        return _NONE.union(*(names for names in self.one_of if len(names) == 1))


def contents(text: str) -> dict[str, Content]:
    """The content of each element that a canonical DTD declares, by qualified name."""
    found = {}
    for declaration in text.split("\n"):
        keyword, _, rest = declaration.partition(" ")
        if keyword == "<!ELEMENT":
            name, _, model = rest[:-1].partition(" ")
            found[name] = content_of(model)
    return found


def content_of(model: str) -> Content:
    """The content of a model, written canonically; its groups may be nested 64 deep."""
    if not model.startswith("("):
        return Content(has_text=model == "ANY", any=model == "ANY", empty=model == "EMPTY")
    tokens = _TOKEN.findall(model)
    if tokens[1] == "#PCDATA":
        names = frozenset(token for token in tokens[2:] if token[0] not in ")|")
        return Content(names, has_text=True)
    names, one_of, _ = _group(tokens, 0)
    return Content(names, one_of)


def _group(tokens: list[str], at: int) -> tuple[frozenset[str], _Clauses, int]:
    """(names, what it needs, where it goes on) of the group whose parenthesis is at `at`."""
    names: set[str] = set()
    parts: list[_Clauses] = []
    choice = False
    at += 1
    while tokens[at][0] != ")":
        token = tokens[at]
        if token == "(":
            inner, needed, at = _group(tokens, at)
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
    return frozenset(names), _either(parts) if choice else _NO_CLAUSES.union(*parts), at + 1


def _either(parts: list[_Clauses]) -> _Clauses:
    """What is needed whichever part is taken: not all of it, one set beside what all share."""
    shared = parts[0].intersection(*parts)
    if not all(parts):
        return shared
    return shared | {_NONE.union(*(min(part, key=len) for part in parts))}
