"""Normalisation of attributes whose declared type is not CDATA (XML 1.0, section 3.3.3).

A parser that knows the declarations drops their leading and trailing spaces, and replaces runs of
spaces by one. Documents are parsed without the DTD, so this is done afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lxml import etree

from broker.dtd.declaration import DeclaredElement
from broker.dtd.declared_names import ENVELOPE_PREFIX, DeclaredNames
from broker.dtd.renamed_document import prefixed_attributes


def normalise_tokens(value: str) -> str:
    """Return the value of a tokenised attribute. Only spaces count: a tab is a reference's."""
    if " " not in value:
        return value
    return " ".join(word for word in value.split(" ") if word)


class TokenisedAttributes:
    """The attributes of a DTD that are not CDATA, in payloads.

    Those of the envelope must be written as the DTD lists them: clients read them without a DTD.
    """

    def __init__(self, elements: Iterable[DeclaredElement], names: DeclaredNames) -> None:
        self._names = names
        self.by_element: dict[str, frozenset[str]] = {}
        """Qualified names of attributes by that of the element."""
        for element in elements:
            tokenised = frozenset(
                attribute.qualified_name
                for attribute in element.attributes
                if attribute.type != "cdata" and attribute.declares_prefix is None
            )
            if tokenised and element.prefix != ENVELOPE_PREFIX:
                self.by_element[element.qualified_name] = tokenised
        self._plain = self._select(lambda name: ":" not in name)
        self._prefixed = self._select(lambda name: ":" in name)
        # A prefix may go with any namespace.
        self._tags = tuple({f"{{*}}{name.rpartition(':')[2]}" for name in self.by_element})

    def _select(self, is_wanted: Callable[[str], bool]) -> dict[str, frozenset[str]]:
        wanted = {
            name: frozenset(filter(is_wanted, each)) for name, each in self.by_element.items()
        }
        return {name: each for name, each in wanted.items() if each}

    def normalise(self, root: etree._Element) -> None:
        """Normalise the values within `root`, in place."""
        if not self._tags:
            return
        plain, prefixed, name_of = self._plain, self._prefixed, self._names.element_name
        for element in root.iter(*self._tags):
            name = name_of(str(element.tag), element.prefix)
            for key in plain.get(name, ()):
                value = element.get(key)
                if value is not None and (normal := normalise_tokens(value)) != value:
                    element.set(key, normal)
            if name in prefixed:
                self._normalise_prefixed(element, prefixed[name])

    def _normalise_prefixed(self, element: etree._Element, tokenised: frozenset[str]) -> None:
        for key, prefix in prefixed_attributes(element):
            if self._names.attribute_name(key, prefix) in tokenised:
                element.set(key, normalise_tokens(str(element.attrib[key])))
