"""Names of elements that are only in namespaces, and queries that write them without prefix.

libxml2 accepts a document without its `#FIXED` default namespace, so such a query might match. Real
events have the namespace: the subscriber gets advice, and nothing is concluded from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from broker.dtd.declaration import DeclaredElement
from broker.dtd.declared_names import ENVELOPE
from broker.dtd.reference import DtdReference
from broker.matching.query import tree
from broker.matching.query.namespace_advice import advise_binding
from broker.matching.query.query import Query
from broker.matching.query.tree import Axis, NameTest
from broker.matching.schema.schema_node import MAX_EDGES, Namespaces, namespaces_of

#: Names in one piece of advice.
_MAX_NAMES: Final = 4


def list_namespaces(elements: Mapping[str, DeclaredElement]) -> Mapping[str, Namespaces]:
    """Return the namespaces of payload elements by local name; None if one is not fixed.

    It assumes that each `#FIXED` namespace is present. Empty for a DTD with too many elements.
    """
    by_prefix = namespaces_of(elements.values())
    found: dict[str, set[str] | None] = {}
    seen: set[tuple[str, str | None]] = set()
    waiting: list[tuple[str, str | None]] = [(ENVELOPE, "")]
    work = 0
    while waiting:
        name, inherited = waiting.pop()
        if (name, inherited) in seen or name not in elements:
            continue
        seen.add((name, inherited))
        element = elements[name]
        default = _default_namespace(element, inherited)
        known: Namespaces = None if default is None else frozenset({default})
        if element.prefix:
            known = by_prefix.get(element.prefix)
        before = found.get(element.name, set())
        found[element.name] = None if known is None or before is None else {*before, *known}
        children = elements if element.any else element.children
        work += len(children) + 1
        if work > MAX_EDGES:
            return {}
        waiting += [(child, default) for child in children]
    return {name: None if uris is None else frozenset(uris) for name, uris in found.items()}


def _default_namespace(element: DeclaredElement, inherited: str | None) -> str | None:
    for attribute in element.attributes:
        if attribute.declares_prefix == "":
            return attribute.default if attribute.fixed else None
    return inherited


def is_unprefixed(uris: Namespaces) -> bool:
    """Return True if a name with these namespaces may be in none."""
    return uris is None or "" in uris


class NamespacedNames:
    """The names that all elements of all known types have only in namespaces."""

    def __init__(self, types: Mapping[DtdReference, Mapping[str, Namespaces]]) -> None:
        self._in: dict[str, tuple[DtdReference, str]] = {}
        without: set[str] = set()
        for reference in sorted(types):
            for name, uris in types[reference].items():
                if is_unprefixed(uris):
                    without.add(name)
                elif uris:
                    self._in[name] = (reference, min(uris))
        for name in without:
            self._in.pop(name, None)

    def advise(self, query: Query, words: frozenset[str]) -> str:
        """Return advice, or "". `words` are at least all names of the query."""
        if self._in.keys().isdisjoint(words):
            return ""
        names = dict.fromkeys(name for name in _unprefixed_names(query) if name in self._in)
        if not names:
            return ""
        first = next(iter(names))
        reference, uri = self._in[first]
        same = [name for name in names if self._in[name] == (reference, uri)][:_MAX_NAMES]
        are = "are" if len(same) > 1 else "is"
        return (
            f"{' and '.join(map(repr, same))} {are} in no namespace in the query, but in "
            f"{uri} in the DTD {reference}: {advise_binding(first, uri, dict(query.namespaces))}"
        )


def _unprefixed_names(query: Query) -> Iterator[str]:
    waiting = [query.expression]
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, tree.Path):
            for step in each.steps:
                test = step.test
                if (
                    isinstance(test, NameTest)
                    and test.prefix is None
                    and test.local is not None
                    and step.axis not in (Axis.ATTRIBUTE, Axis.NAMESPACE)
                ):
                    yield test.local
        waiting += [*tree.subexpressions_of(each), *tree.predicates_of(each)]
