"""Content models as expressions: names, sequences and choices, each with an occurrence sign."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias

import attrs

Occurrence: TypeAlias = Literal["", "?", "*", "+"]

#: Occurrence sign by "may be absent" and "may be repeated".
_SIGNS: Final[dict[tuple[bool, bool], Occurrence]] = {
    (False, False): "",
    (True, False): "?",
    (True, True): "*",
    (False, True): "+",
}


def occurrence_sign(*, optional: bool, repeated: bool) -> Occurrence:
    return _SIGNS[optional, repeated]


@attrs.frozen
class Expression:
    """A name if `parts` is empty, else a group."""

    name: str = ""
    separator: Literal["", ",", "|"] = ""
    parts: tuple[Expression, ...] = ()
    occurrence: Occurrence = ""

    def write(self, qualify: Callable[[str], str]) -> str:
        """Return the text of a DTD; `qualify` returns a name as the DTD has it."""
        if not self.parts:
            return qualify(self.name) + self.occurrence
        inner = f"{self.separator} ".replace("| ", " | ").join(
            part.write(qualify) for part in self.parts
        )
        return f"({inner}){self.occurrence}"


def name_of(name: str, occurrence: Occurrence = "") -> Expression:
    return Expression(name, occurrence=occurrence)


def sequence(parts: Iterable[Expression], occurrence: Occurrence = "") -> Expression:
    return Expression(separator=",", parts=tuple(parts), occurrence=occurrence)


def choice(parts: Iterable[Expression], occurrence: Occurrence = "") -> Expression:
    return Expression(separator="|", parts=tuple(parts), occurrence=occurrence)
