"""Typed declarations of a parsed DTD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs
from lxml import etree

from broker.dtd.content import Content


@attrs.frozen
class DeclaredAttribute:
    prefix: str | None
    name: str
    #: Without the prefix.

    type: str
    #: As lxml names it: `cdata`, `enumeration`, `nmtoken`, `id` and so on.

    default: str | None
    #: Normalised.

    values: tuple[str, ...]

    fixed: bool = False

    required: bool = False

    @property
    def qualified_name(self) -> str:
        return f"{self.prefix}:{self.name}" if self.prefix else self.name

    @property
    def declares_prefix(self) -> str | None:
        """Prefix of a namespace declaration ("": the default one), else None."""
        if self.prefix == "xmlns":
            return self.name
        return "" if self.prefix is None and self.name == "xmlns" else None


@attrs.frozen
class DeclaredElement:
    prefix: str | None
    name: str
    #: Without the prefix.

    type: str
    #: `empty`, `any`, `mixed` or `element`.

    attributes: tuple[DeclaredAttribute, ...]
    content: Content = Content()

    @property
    def children(self) -> frozenset[str]:
        return self.content.children

    @property
    def has_text(self) -> bool:
        return self.content.has_text

    @property
    def any(self) -> bool:
        return self.content.any

    @property
    def qualified_name(self) -> str:
        return f"{self.prefix}:{self.name}" if self.prefix else self.name


def list_elements(dtd: etree.DTD, contents: Mapping[str, Content]) -> tuple[DeclaredElement, ...]:
    """lxml's models lack prefixes: `contents` has qualified names."""
    # lxml's type stubs lack these methods.
    elements = cast(Any, dtd).iterelements()
    return tuple(
        DeclaredElement(
            element.prefix,
            element.name,
            element.type,
            tuple(_read_attribute(attribute) for attribute in element.iterattributes()),
            contents.get(_qualified_name(element), Content()),
        )
        for element in elements
    )


def _read_attribute(attribute: Any) -> DeclaredAttribute:
    default = attribute.default_value
    if default is not None:
        # libxml2 keeps the ampersand's reference.
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


def _qualified_name(element: Any) -> str:
    return f"{element.prefix}:{element.name}" if element.prefix else element.name
