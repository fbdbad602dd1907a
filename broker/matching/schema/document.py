"""One document that a DTD describes, as places: the payload's own, or the envelope's."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from broker.dtd.declared import DeclaredElement
from broker.dtd.dtd import ENVELOPE
from broker.matching.schema.limits import MAX_EDGES, MAX_PLACES
from broker.matching.schema.namespaces import NO_NAMESPACE, Namespaces
from broker.matching.schema.places import NodeKind, Place, values_of

_EMPTY_TEXT: Final = frozenset({""})


class TooManyPlaces(Exception):
    """The document has more places, or more pairs of them, than are looked at."""


class Document:
    """The places of one document.

    `payload` is the element that the envelope contains beside its own; labels within it start with
    it, in whichever document it is. `shared`: elements of one name share a place.
    """

    def __init__(
        self,
        elements: Mapping[str, DeclaredElement],
        namespaces: Mapping[str, Namespaces],
        start: str,
        *,
        payload: str | None,
        payloads: Collection[str],
        shared: bool,
    ) -> None:
        """Raises `TooManyPlaces`; with `shared` only for a DTD that is dense beyond all use."""
        self._elements = elements
        self._namespaces = namespaces
        self._payload = payload
        self._payloads = payloads
        self._shared = shared
        self._edges = 0
        self.root = Place(NodeKind.ROOT, "")
        self.remark = Place(NodeKind.REMARK, "comment()", self.root)
        self._pool = Place(NodeKind.POOL, "/", self.root)
        self.elements: list[Place] = []
        self.by_local: dict[str, list[Place]] = {}
        """Elements by their names without prefix."""
        self.root.link(self.remark, "")
        self._grow(start)
        (self.element,) = (p for p in self.root.contents if p.kind is NodeKind.ELEMENT)
        self.root.required.append(self.element)

    # ------------------------------------------------------------------ growing

    def _grow(self, start: str) -> None:
        by_name: dict[str, Place] = {}
        first = self._element(start, f"/{start}")
        self.root.link(first, f"/{start}")
        by_name[start] = first
        # Each with its ancestors by name, itself among them.
        waiting = [(first, by_name)]
        while waiting:
            place, known = waiting.pop()
            if isinstance(place.declaration, DeclaredElement) and place.declaration.any:
                place = self._any(place)
                if place.contents:
                    continue
            children, required = self._children(place)
            for name in sorted(children):
                base = "" if place.qualified == ENVELOPE and name in self._payloads else place.label
                edge = f"{base}/{name}"
                inner = known.get(name)
                if inner is None:
                    inner = self._element(name, f"//{name}" if self._shared else edge)
                    if self._shared:
                        known[name] = inner
                        waiting.append((inner, known))
                    else:
                        waiting.append((inner, {**known, name: inner}))
                place.link(inner, edge)
                self._count_edge()
                if name in required:
                    place.required.append(inner)

    def _any(self, place: Place) -> Place:
        """The pool, put into a place that may contain all elements; there are too many for more."""
        if not self._shared:
            raise TooManyPlaces
        place.contents.append(self._pool)
        self._pool.parents.append(place)
        return self._pool

    def _children(self, place: Place) -> tuple[Collection[str], Collection[str]]:
        declared = place.declaration
        if declared is None:
            return self._elements.keys(), ()
        assert isinstance(declared, DeclaredElement)
        children = declared.content.children
        required = declared.content.required
        if declared.qualified_name == ENVELOPE and self._payloads:
            own = (name for name in children if name not in self._payloads)
            if self._payload is None:
                return self._declared(own), required
            return self._declared((*own, self._payload)), {*required, self._payload}
        return self._declared(children), required

    def _declared(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self._elements]

    def _element(self, name: str, label: str) -> Place:
        declared = self._elements[name]
        empty = declared.content.empty
        place = Place(
            NodeKind.ELEMENT,
            label,
            self.root,
            qualified=name,
            namespaces=self._namespaces.get(declared.prefix or ""),
            values=_EMPTY_TEXT if empty else None,
            declaration=declared,
        )
        self.elements.append(place)
        if len(self.elements) > MAX_PLACES and not self._shared:
            raise TooManyPlaces
        self.by_local.setdefault(place.local, []).append(place)
        self._add_attributes(place, declared)
        if not empty:
            text = Place(NodeKind.TEXT, f"{label}/text()", self.root)
            place.link(text, text.label)
            if not declared.has_text:
                # White space between elements: there, but nothing that a DTD adds or drops.
                text.edges.clear()
            place.link(self.remark, "")
        return place

    def _add_attributes(self, place: Place, declared: DeclaredElement) -> None:
        for attribute in declared.attributes:
            if attribute.declares_prefix is not None:
                continue
            self._count_edge()
            name = attribute.qualified_name
            inner = Place(
                NodeKind.ATTRIBUTE,
                f"{place.label}/@{name}",
                self.root,
                qualified=name,
                namespaces=(
                    self._namespaces.get(attribute.prefix) if attribute.prefix else NO_NAMESPACE
                ),
                values=values_of(attribute),
                declaration=attribute,
            )
            place.link(inner, inner.label)
            if attribute.required or attribute.default is not None:
                place.required.append(inner)

    def _count_edge(self) -> None:
        self._edges += 1
        if self._edges > MAX_EDGES:
            raise TooManyPlaces
