"""Elements that documents of an XML Schema can have, with all of their types.

A DTD has one declaration for a name. So all declarations of a name are joined, with those of all
types that `xsi:type` can name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs
import xmlschema
from xmlschema.validators import XsdAnyAttribute, XsdAnyElement, XsdElement, XsdGroup, XsdType

from broker.dtd.derivation.prefix_table import split_name
from broker.dtd.derivation.schema_content import SchemaContent, declarations_of_element
from broker.errors import BadDtd

XSD_NAMESPACE: Final = "http://www.w3.org/2001/XMLSchema"
XSI_NAMESPACE: Final = "http://www.w3.org/2001/XMLSchema-instance"
#: Distinct names of elements, named types, and pairs of a name and a type.
MAX_ELEMENTS: Final = 4_000
MAX_TYPES: Final = 20_000
MAX_VARIANTS: Final = 100_000


@attrs.define
class SchemaElement:
    """All declarations of elements of one name."""

    name: str
    types: list[XsdType] = attrs.field(factory=list)
    """Each once, with those that `xsi:type` can name."""
    is_nillable: bool = False
    has_value: bool = False
    """True if a declaration has a default or a fixed value."""


class ReachableElements:
    """All elements that documents with the given roots can have."""

    def __init__(
        self,
        schema: xmlschema.XMLSchemaBase,
        roots: Iterable[XsdElement],
        *,
        with_wildcards: bool = True,
    ) -> None:
        """`with_wildcards` adds the global elements that wildcards accept.

        Raises `BadDtd` for too many elements.
        """
        self.elements: dict[str, SchemaElement] = {}
        self.identities: set[str] = set()
        self.assertions = 0
        self._contents: dict[int, SchemaContent] = {}
        self._variants: set[tuple[str, int]] = set()
        self._waiting: list[XsdType] = []
        self._global_types = [each for each in schema.maps.types.values() if _is_own(each.name)]
        if len(self._global_types) > MAX_TYPES:
            raise BadDtd(f"the schema has more than {MAX_TYPES:,} types")
        self._derived: dict[int, list[XsdType]] = {}
        for type_ in self._global_types:
            for base in _bases_of(type_):
                self._derived.setdefault(base, []).append(type_)
        self._global_elements = [
            each
            for each in schema.maps.elements.values()
            if with_wildcards and _is_own(each.name) and not each.abstract
        ]
        for root in roots:
            self._add_declarations(root)
        while self._waiting:
            self._read_type(self._waiting.pop())

    def content_of(self, type_: XsdType) -> SchemaContent:
        return self._contents[id(type_)]

    def _add_declarations(self, element: XsdElement) -> None:
        for declaration in declarations_of_element(element):
            self._add(declaration)

    def _add(self, declaration: XsdElement) -> None:
        name = declaration.name
        element = self.elements.get(name)
        if element is None:
            if len(self.elements) >= MAX_ELEMENTS:
                raise BadDtd(f"documents of this schema may have more than {MAX_ELEMENTS:,} names")
            element = self.elements[name] = SchemaElement(name)
        element.is_nillable |= declaration.nillable
        element.has_value |= declaration.value_constraint is not None
        self.identities |= {str(each.local_name) for each in declaration.identities}
        own = [declaration.type, *_alternative_types(declaration)]
        for declared in own:
            for type_ in (declared, *self._types_derived_from(declared)):
                key = (name, id(type_))
                if key not in self._variants:
                    if len(self._variants) >= MAX_VARIANTS:
                        raise BadDtd(f"the schema has more than {MAX_VARIANTS:,} uses of types")
                    self._variants.add(key)
                    element.types.append(type_)
                    self._waiting.append(type_)

    def _types_derived_from(self, base: XsdType) -> Sequence[XsdType]:
        """Return the types that `xsi:type` can name, except built-in ones."""
        if is_any_type(base):
            return self._global_types
        # A member of a union can stand in its place.
        bases = (base, *getattr(base, "member_types", ()))
        found = {id(each): each for one in bases for each in self._derived.get(id(one), ())}
        return [each for each in found.values() if each is not base]

    def _read_type(self, type_: XsdType) -> None:
        if id(type_) in self._contents:
            return
        content = SchemaContent()
        group = getattr(type_, "content", None)
        if isinstance(group, XsdGroup):
            content = SchemaContent.of_group(group, self._names_of_wildcard)
        open_content = getattr(type_, "open_content", None)
        if open_content is not None and open_content.mode != "none":
            content.wildcards.append(open_content.any_element)
            content.is_open = True
        self.assertions += len(getattr(type_, "assertions", ()))
        self._contents[id(type_)] = content
        for element in content.elements:
            self._add_declarations(element)
        for wildcard in content.wildcards:
            for element in self._elements_of_wildcard(wildcard):
                self._add_declarations(element)

    def _elements_of_wildcard(self, wildcard: XsdAnyElement) -> list[XsdElement]:
        return [each for each in self._global_elements if allows(wildcard, each.name)]

    def _names_of_wildcard(self, wildcard: XsdAnyElement) -> list[str]:
        return [each.name for each in self._elements_of_wildcard(wildcard)]


def _bases_of(type_: XsdType) -> set[int]:
    """Return the types that a type is derived from, and itself, by `id`."""
    found: set[int] = set()
    waiting: list[XsdType | None] = [type_]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in found:
            found.add(id(each))
            waiting.append(each.base_type)
            simple = getattr(each, "content", None)
            waiting.append(simple if isinstance(simple, XsdType) else None)
    return found


def allows(wildcard: XsdAnyElement | XsdAnyAttribute, name: str) -> bool:
    return bool(wildcard.is_namespace_allowed(split_name(name)[0]))


def is_any_type(type_: XsdType) -> bool:
    return type_.name == f"{{{XSD_NAMESPACE}}}anyType"


def _alternative_types(declaration: XsdElement) -> Iterator[XsdType]:
    for alternative in getattr(declaration, "alternatives", ()):
        if alternative.type is not None:
            yield alternative.type


def _is_own(name: str | None) -> bool:
    """Return False for the names of the language itself."""
    return name is not None and not name.startswith(
        (f"{{{XSD_NAMESPACE}}}", f"{{{XSI_NAMESPACE}}}")
    )
