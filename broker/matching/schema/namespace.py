"""Which namespaces the prefixes of a DTD can stand for.

A valid document spells prefixes as its DTD does, and declares no namespace that the DTD does not
let it declare. So a prefix with `#FIXED` declarations alone is known; of one that the document may
bind as it likes, or that the DTD does not bind at all, nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from broker.dtd.declaration import DeclaredElement
from broker.matching.query.namespaces import XML_NAMESPACE

#: URIs that may be meant, "" for no namespace; None: any.
Namespaces: TypeAlias = frozenset[str] | None

NO_NAMESPACE: Final = frozenset({""})


def namespaces_of(elements: Iterable[DeclaredElement]) -> Mapping[str, Namespaces]:
    """Namespaces by prefix; "" is the default namespace, and a prefix that is missing is unknown.

    A document need not write a fixed default namespace: its names may be in none as well.
    """
    found: dict[str, set[str]] = {"": {""}, "xml": {XML_NAMESPACE}}
    unknown = set()
    for element in elements:
        for attribute in element.attributes:
            prefix = attribute.declares_prefix
            if prefix is None:
                continue
            if attribute.fixed and attribute.default is not None and "&" not in attribute.default:
                found.setdefault(prefix, set()).add(attribute.default)
            else:
                unknown.add(prefix)
    return {p: None if p in unknown else frozenset(uris) for p, uris in found.items()}
