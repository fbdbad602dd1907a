"""Namespaces that the prefixes of a DTD can have.

A valid document uses the prefixes of its DTD, and declares only namespaces that the DTD allows. So
a prefix that has only `#FIXED` declarations is known. All other prefixes are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from broker.dtd.declaration import DeclaredElement
from broker.matching.query.namespaces import XML_NAMESPACE

#: Possible URIs, "" for no namespace; None for any.
Namespaces: TypeAlias = frozenset[str] | None

NO_NAMESPACE: Final = frozenset({""})


def namespaces_of(elements: Iterable[DeclaredElement]) -> Mapping[str, Namespaces]:
    """Return namespaces by prefix. "" is the default namespace; a missing prefix is unknown.

    A document may omit a fixed default namespace, so its names may also be in none.
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
