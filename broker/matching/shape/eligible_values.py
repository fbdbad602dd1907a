"""Values of a type that may vary without effect on well-formedness and validity (soundness of
slots)."""

from __future__ import annotations

from typing import TypeAlias

from broker.dtd.declaration import DeclaredAttribute
from broker.dtd.interfaces import IDtd
from broker.event.envelope import NAMESPACE

#: Element and attribute, by the names in documents.
AttributeClass: TypeAlias = tuple[bytes, bytes]

#: Its text must be the DOCTYPE's version, so it never varies.
_VERSION_NUM = f"{{{NAMESPACE}}}VersionNum"


class EligibleValues:
    """The texts and attributes of a type for which the DTD allows any value.

    Only declarations of the written name count: libxml2 validates `x:a` by that of `a` too.
    """

    def __init__(self, dtd: IDtd) -> None:
        self.texts = frozenset(
            name.encode()
            for name, element in dtd.elements.items()
            if element.type in ("mixed", "any")
        )
        self.attributes: frozenset[AttributeClass] = frozenset(
            (name.encode(), attribute.qualified_name.encode())
            for name, element in dtd.elements.items()
            for attribute in element.attributes
            if _allows_any_value(attribute)
        )
        self.names = frozenset(name.encode() for name in dtd.names)

    def is_eligible_text(self, name: bytes, tag: str) -> bool:
        """Return True if a leaf with this written name and lxml tag may have any text."""
        return name in self.texts and tag != _VERSION_NUM


def _allows_any_value(attribute: DeclaredAttribute) -> bool:
    return (
        attribute.type == "cdata"
        and not attribute.fixed
        and attribute.declares_prefix is None
        and attribute.prefix != "xml"
    )
