"""Normalisation of attributes whose declared type is not CDATA (XML 1.0, section 3.3.3).

A parser that knows the declarations drops their leading and trailing spaces, and replaces runs of
spaces by one. Documents are parsed without the DTD, so this is done afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable

from lxml import etree

from broker.dtd.declaration import DeclaredAttribute, DeclaredElement
from broker.dtd.declared_names import DeclaredNames
from broker.event.envelope import ENVELOPE_PREFIX, XML_NAMESPACE


def normalise_tokens(value: str) -> str:
    """Return the value of a tokenised attribute. Only spaces count: a tab is a reference's."""
    if " " not in value:
        return value
    return " ".join(word for word in value.split(" ") if word)


class TokenisedAttributes:
    """The attributes of a DTD that are not CDATA, in payloads.

    Those of the envelope must be written as the DTD lists them: clients read them without a DTD.
    One with a prefix counts if the DTD declares its namespace.
    """

    def __init__(self, elements: Iterable[DeclaredElement], names: DeclaredNames) -> None:
        self._names = names
        self.by_element: dict[str, frozenset[str]] = {}
        """Qualified names of attributes by that of the element."""
        self._keys: dict[str, tuple[str, ...]] = {}
        """The same attributes, by their names in lxml."""
        for element in elements:
            if element.prefix == ENVELOPE_PREFIX:
                continue
            keys = {
                attribute.qualified_name: key
                for attribute in element.attributes
                if attribute.type != "cdata"
                and attribute.declares_prefix is None
                and (key := self._key_of(attribute)) is not None
            }
            if keys:
                self.by_element[element.qualified_name] = frozenset(keys)
                self._keys[element.qualified_name] = tuple(keys.values())
        # A prefix may go with any namespace.
        self._tags = tuple({f"{{*}}{name.rpartition(':')[2]}" for name in self.by_element})

    def _key_of(self, attribute: DeclaredAttribute) -> str | None:
        if attribute.prefix is None:
            return attribute.name
        namespaces = {**self._names.namespaces, "xml": XML_NAMESPACE}
        namespace = namespaces.get(attribute.prefix)
        return None if namespace is None else f"{{{namespace}}}{attribute.name}"

    def normalise(self, root: etree._Element) -> None:
        """Normalise the values within `root`, in place."""
        if not self._tags:
            return
        keys, name_of = self._keys, self._names.element_name
        for element in root.iter(*self._tags):
            for key in keys.get(name_of(str(element.tag), element.prefix), ()):
                value = element.get(key)
                if value is not None and " " in value:
                    element.set(key, normalise_tokens(value))
