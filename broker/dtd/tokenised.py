"""Normalisation of attributes whose declared type is not CDATA (XML 1.0, section 3.3.3).

A parser that knows the declarations drops their leading and trailing spaces, and replaces runs of
spaces by one. Documents are parsed without the DTD, so this is done afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable

from lxml import etree

from broker.dtd.declaration import DeclaredElement
from broker.dtd.declared_names import ENVELOPE_PREFIX, DeclaredNames
from broker.dtd.renamed_document import prefixed_attributes


def normalise_tokens(value: str) -> str:
    """Return the value of a tokenised attribute. Only spaces count: a tab is a reference's."""
    if value[:1] == " " or value[-1:] == " " or "  " in value:
        return " ".join(word for word in value.split(" ") if word)
    return value


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
        # A prefix may go with any namespace.
        self._tags = tuple({f"{{*}}{name.rpartition(':')[2]}" for name in self.by_element})

    def normalise(self, root: etree._Element) -> None:
        """Normalise the values within `root`, in place."""
        if not self._tags:
            return
        names = self._names
        for element in root.iter(*self._tags):
            tokenised = self.by_element.get(names.element_name(str(element.tag), element.prefix))
            if tokenised is None:
                continue
            changed = [
                (str(key), normal)
                for key, value in element.items()
                if (normal := normalise_tokens(str(value))) != value
            ]
            if not changed:
                continue
            prefixes = dict(prefixed_attributes(element))
            for key, normal in changed:
                if names.attribute_name(key, prefixes.get(key)) in tokenised:
                    element.set(key, normal)
