"""Names of a document as its DTD writes them, whatever prefixes the document has.

A DTD compares prefixes as they are written. A type declares prefixes by namespace: all
`#FIXED` declarations `xmlns:p` of its DTD have one value. The default namespace is declared if all
payloads without prefix have one `#FIXED xmlns`. Names in these namespaces are compared by namespace
and local name, all others as they are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from broker.dtd.declaration import DeclaredAttribute, DeclaredElement
from broker.event.envelope import ENVELOPE_PREFIX, NAMESPACE, XML_NAMESPACE

ENVELOPE: Final = f"{ENVELOPE_PREFIX}:Event"


class DeclaredNames:
    """`namespaces` has the declared prefixes, without those of XML and of the envelope; "" is the
    default namespace."""

    def __init__(self, elements: Mapping[str, DeclaredElement]) -> None:
        self.namespaces = _declared_namespaces(elements)
        self._elements: dict[str, tuple[str, ...]] = {}
        self._attributes: dict[str, tuple[str, ...]] = {}
        for element in elements.values():
            self._add(self._elements, element, element.prefix or "")
            for attribute in element.attributes:
                if attribute.prefix and attribute.declares_prefix is None:
                    self._add(self._attributes, attribute, attribute.prefix)

    def _add(
        self,
        names: dict[str, tuple[str, ...]],
        declared: DeclaredElement | DeclaredAttribute,
        prefix: str,
    ) -> None:
        namespace = self.namespaces.get(prefix)
        if namespace is not None:
            key, known = f"{{{namespace}}}{declared.name}", declared.qualified_name
            if known not in names.setdefault(key, ()):
                names[key] += (known,)

    def element_name(self, tag: str, prefix: str | None) -> str:
        """Return the DTD's name of an element with this tag (as lxml has it) and prefix."""
        return self._choose(self._elements.get(tag), tag, prefix)

    def attribute_name(self, tag: str, prefix: str | None) -> str:
        """Return the DTD's name of an attribute."""
        return self._choose(self._attributes.get(tag), tag, prefix)

    def _choose(self, declared: tuple[str, ...] | None, tag: str, prefix: str | None) -> str:
        written = written_name(tag, prefix)
        if declared is not None:
            return written if written in declared else declared[0]
        namespace = self.namespaces.get(prefix) if prefix else None
        # With another namespace it is not the DTD's name, though it is written so.
        return written if namespace is None or tag.startswith(f"{{{namespace}}}") else tag


def written_name(tag: str, prefix: str | None) -> str:
    local = tag[tag.rfind("}") + 1 :]
    return f"{prefix}:{local}" if prefix else local


def fixed_namespaces(elements: Iterable[DeclaredElement]) -> dict[str, str]:
    """Return the namespaces of prefixes with one `#FIXED` value, and of `xml`."""
    found: dict[str, set[str]] = {}
    for element in elements:
        for attribute in element.attributes:
            if attribute.declares_prefix and attribute.fixed and attribute.default:
                found.setdefault(attribute.declares_prefix, set()).add(attribute.default)
    namespaces = {prefix: uris.pop() for prefix, uris in found.items() if len(uris) == 1}
    return {**namespaces, "xml": XML_NAMESPACE}


def _declared_namespaces(elements: Mapping[str, DeclaredElement]) -> dict[str, str]:
    namespaces = fixed_namespaces(elements.values())
    del namespaces["xml"]
    if namespaces.get(ENVELOPE_PREFIX) == NAMESPACE:
        # The envelope's prefix is fixed: the prolog is read before the parser runs.
        del namespaces[ENVELOPE_PREFIX]
    envelope = elements.get(ENVELOPE)
    payloads = [] if envelope is None else [name for name in envelope.children if ":" not in name]
    defaults = {
        attribute.default if attribute.fixed else None
        for name in payloads
        for attribute in _default_declarations(elements.get(name))
    }
    if len(defaults) == 1 and (default := defaults.pop()):
        namespaces[""] = default
    return namespaces


def _default_declarations(element: DeclaredElement | None) -> Iterable[DeclaredAttribute]:
    found = [] if element is None else [a for a in element.attributes if a.declares_prefix == ""]
    return found or [_NO_DECLARATION]


_NO_DECLARATION: Final = DeclaredAttribute(None, "xmlns", "cdata", None, ())
