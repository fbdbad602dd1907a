"""What a parsed DTD declares, as typed data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs
from lxml import etree

from broker.dtd.content import Content


@attrs.frozen
class DeclaredAttribute:
    """One attribute of one element."""

    prefix: str | None
    name: str
    #: Without the prefix.

    type: str
    #: `cdata`, `enumeration`, `nmtoken`, `id` and so on, as lxml calls them.

    default: str | None
    #: The value of an attribute left out, normalised; None if there is none.

    values: tuple[str, ...]
    #: Of an enumeration.

    fixed: bool = False
    #: No other value than the default is valid.

    required: bool = False
    #: The document has to write it.

    @property
    def qualified_name(self) -> str:
        """The name as the DTD has it."""
        return f"{self.prefix}:{self.name}" if self.prefix else self.name

    @property
    def declares_prefix(self) -> str | None:
        """For a namespace declaration the prefix, "" for the default namespace; else None."""
        if self.prefix == "xmlns":
            return self.name
        return "" if self.prefix is None and self.name == "xmlns" else None


@attrs.frozen
class DeclaredElement:
    """One element that has an ELEMENT declaration, with its attributes."""

    prefix: str | None
    name: str
    #: Without the prefix.

    type: str
    #: `empty`, `any`, `mixed` or `element`.

    attributes: tuple[DeclaredAttribute, ...]
    content: Content = Content()

    @property
    def children(self) -> frozenset[str]:
        """Qualified names of the elements that it may contain; those of `any` are not listed."""
        return self.content.children

    @property
    def has_text(self) -> bool:
        """It may contain text that is not just white space between elements."""
        return self.content.has_text

    @property
    def any(self) -> bool:
        """It may contain all elements that the DTD declares."""
        return self.content.any

    @property
    def qualified_name(self) -> str:
        """The name as the DTD has it."""
        return f"{self.prefix}:{self.name}" if self.prefix else self.name


def declared_elements(
    dtd: etree.DTD, contents: Mapping[str, Content]
) -> tuple[DeclaredElement, ...]:
    """All elements of a DTD; `contents` by qualified name, since lxml hides prefixes in models."""
    # lxml's type stubs do not know the methods of DTD that list its declarations.
    elements = cast(Any, dtd).iterelements()
    return tuple(
        DeclaredElement(
            element.prefix,
            element.name,
            element.type,
            tuple(_attribute(attribute) for attribute in element.iterattributes()),
            contents.get(_qualified(element), Content()),
        )
        for element in elements
    )


def _attribute(attribute: Any) -> DeclaredAttribute:
    default = attribute.default_value
    if default is not None:
        # libxml2 resolves references in defaults but for the ampersand's.
        default = default.replace("&#38;", "&")
    return DeclaredAttribute(
        attribute.prefix,
        attribute.name,
        attribute.type,
        default,
        tuple(attribute.itervalues()),
        attribute.default == "fixed",
        attribute.default == "required",
    )


def _qualified(element: Any) -> str:
    return f"{element.prefix}:{element.name}" if element.prefix else element.name
