"""Content models of an XML Schema as expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

import attrs
from xmlschema.validators import XsdAnyElement, XsdElement, XsdGroup

from broker.dtd.derivation.expression import (
    Expression,
    choice,
    name_of,
    occurrence_sign,
)
from broker.errors import BadDtd

#: Returns the names of the declared elements that a wildcard accepts.
NamesOfWildcard: TypeAlias = Callable[[XsdAnyElement], Sequence[str]]
#: Names of a wildcard. With more, the content is `ANY`.
MAX_WILDCARD_NAMES: Final = 50
#: Groups within groups.
MAX_DEPTH: Final = 100


@attrs.define
class SchemaContent:
    """A type's content model, and the parts of it that a DTD can not have."""

    expression: Expression | None = None
    """None: no child is possible."""
    elements: list[XsdElement] = attrs.field(factory=list)
    """Declarations of possible children, without substitutes."""
    wildcards: list[XsdAnyElement] = attrs.field(factory=list)
    bounded: list[str] = attrs.field(factory=list)
    """Parts with another number of occurrences than 0 or 1 to 1 or many."""
    has_all_group: bool = False

    is_open: bool = False
    """True if a wildcard accepts elements between all others, or very many."""

    @classmethod
    def of_group(cls, group: XsdGroup, names_of_wildcard: NamesOfWildcard) -> SchemaContent:
        """Raises `BadDtd` for groups that are nested too deep."""
        content = cls()
        content.expression = content._read_group(group, 0, names_of_wildcard)
        return content

    def _read_group(
        self, group: XsdGroup, depth: int, names_of_wildcard: NamesOfWildcard
    ) -> Expression | None:
        if depth > MAX_DEPTH:
            raise BadDtd(f"the schema has groups nested deeper than {MAX_DEPTH}")
        if group.max_occurs == 0:
            return None
        parts: list[Expression] = []
        is_optional = False
        for particle in group:
            part = None
            if isinstance(particle, XsdGroup):
                part = self._read_group(particle, depth + 1, names_of_wildcard)
            elif isinstance(particle, XsdElement):
                part = self._read_element(particle)
            elif particle.max_occurs != 0:
                self.wildcards.append(particle)
                names = names_of_wildcard(particle)
                self.is_open |= len(names) > MAX_WILDCARD_NAMES
                part = self._choose_one(names, particle, "a wildcard")
            if part is not None:
                parts.append(part)
            elif particle.max_occurs != 0 or group.model == "choice":
                is_optional = True
        if not parts:
            return None
        if group.model == "all":
            self.has_all_group = True
            required = any(part.occurrence in ("", "+") for part in parts)
            whole = choice(
                (attrs.evolve(part, occurrence="") for part in parts), "+" if required else "*"
            )
        elif group.model == "choice":
            whole = _join(parts, "|")
            if is_optional:
                whole = with_occurrence(whole, is_optional=True)
        else:
            whole = _join(parts, ",")
        return self._apply_occurrence(whole, group, "a group")

    def _read_element(self, element: XsdElement) -> Expression | None:
        if element.max_occurs == 0:
            return None
        self.elements.append(element)
        return self._choose_one(names_of_element(element), element, element.local_name)

    def _choose_one(
        self, names: Sequence[str], particle: XsdElement | XsdAnyElement, label: str
    ) -> Expression | None:
        if not names:
            return None
        whole = choice(map(name_of, names)) if len(names) > 1 else name_of(names[0])
        return self._apply_occurrence(whole, particle, label)

    def _apply_occurrence(
        self, part: Expression, particle: XsdElement | XsdAnyElement | XsdGroup, label: str
    ) -> Expression:
        least, most = particle.min_occurs, particle.max_occurs
        if least > 1 or most not in (1, None):
            self.bounded.append(f"{label} {least} to {'any' if most is None else most}")
        return with_occurrence(part, is_optional=least == 0, is_repeated=most is None or most > 1)


def _join(parts: Sequence[Expression], separator: Literal[",", "|"]) -> Expression:
    """Return one group, in which equal groups are not nested."""
    if len(parts) == 1:
        return parts[0]
    flat: list[Expression] = []
    for part in parts:
        nested = part.separator == separator and not part.occurrence
        flat.extend(part.parts if nested else (part,))
    return Expression(separator=separator, parts=tuple(flat))


def names_of_element(element: XsdElement) -> list[str]:
    """Return the names of an element and of those that may stand in its place."""
    return [each.name for each in declarations_of_element(element)]


def declarations_of_element(element: XsdElement) -> list[XsdElement]:
    found = [] if element.abstract else [element]
    found += sorted(_substitutes(element), key=lambda each: each.name)
    return list({each.name: each for each in found}.values())


def _substitutes(element: XsdElement) -> Iterator[XsdElement]:
    for substitute in element.iter_substitutes():
        if not substitute.abstract:
            yield substitute


def with_occurrence(
    part: Expression, *, is_optional: bool = False, is_repeated: bool = False
) -> Expression:
    """Return an expression that may be absent, or repeated, too."""
    sign = occurrence_sign(
        optional=is_optional or part.occurrence in ("?", "*"),
        repeated=is_repeated or part.occurrence in ("+", "*"),
    )
    return attrs.evolve(part, occurrence=sign)
