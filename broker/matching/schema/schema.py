"""Schema: everything that an event type's version can contain, as nodes and labels (X10, M16)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping

import attrs

from broker.dtd.declaration import DeclaredAttribute, DeclaredElement
from broker.dtd.declared_names import ENVELOPE
from broker.dtd.interfaces import IDtd
from broker.dtd.reference import DtdReference
from broker.event.envelope import ENVELOPE_PREFIX, NAMESPACE
from broker.matching.schema.document_graph import DocumentGraph, TooManyNodes
from broker.matching.schema.schema_node import MAX_PAYLOADS, Namespaces, NodeKind, namespaces_of

#: The envelope's own elements. Any other element in it is the payload (K25).
_ENVELOPE_ELEMENTS = frozenset(
    {"StreamId", "EventId", "EventType", "EventLinkage", "ApplicationType", "Summary"}
)
_ENVELOPE_NAMES = frozenset(f"{ENVELOPE_PREFIX}:{name}" for name in _ENVELOPE_ELEMENTS)


class PayloadScope:
    """The documents of events with one payload, or without any (`payload` is None)."""

    def __init__(
        self, payload: str | None, build: Callable[[str, str | None], DocumentGraph]
    ) -> None:
        self._build = build
        self.payload = payload

    @functools.cached_property
    def document(self) -> DocumentGraph:
        """The document that `/` refers to. Raises `TooManyNodes`."""
        return self.envelope if self.payload is None else self._build(self.payload, self.payload)

    @functools.cached_property
    def envelope(self) -> DocumentGraph:
        """The envelope with the payload in it. Raises `TooManyNodes`."""
        return self._build(ENVELOPE, self.payload)


@attrs.frozen
class LabelInfo:
    kind: NodeKind
    values: frozenset[str] | None = None
    #: Of an attribute: the values listed in the DTD, None without a list.

    default: str | None = None
    #: Of an attribute: its default value.


class Schema:
    """Schema of a DTD. Its document graphs are built on demand.

    With too many nodes, elements of one name share one in all graphs (`shared`). If that is still
    too much, `scopes` is empty and every query counts as satisfiable.
    """

    def __init__(self, dtd: IDtd, *, shared: bool = False) -> None:
        self.reference: DtdReference = dtd.reference
        self.content_hash: str = dtd.content_hash
        self.elements: Mapping[str, DeclaredElement] = dtd.elements
        self.names = frozenset(name.rpartition(":")[2] for name in dtd.names)
        self.namespaces: Mapping[str, Namespaces] = namespaces_of(self.elements.values())
        self.shared = shared
        self._documents: dict[tuple[str, str | None], DocumentGraph] = {}
        self.scopes = self._scopes()
        if not self._has_room() and not shared:
            self.shared = True
            self._documents.clear()
            self.scopes = self._scopes()
        if not self._has_room():
            self.scopes = ()

    def _has_room(self) -> bool:
        """True if the envelopes have room. Then all documents have room."""
        try:
            return all(scope.envelope for scope in self.scopes)
        except TooManyNodes:
            return False

    def labels(self) -> dict[str, LabelInfo]:
        found: dict[str, LabelInfo] = {}
        for scope in self.scopes:
            for document in {scope.document, scope.envelope}:
                for edge, label in _iterate_labels(document):
                    found[edge] = label
        return found

    def _scopes(self) -> tuple[PayloadScope, ...]:
        envelope = self.elements[ENVELOPE]
        payloads = sorted(
            name
            for name in (self.elements if envelope.any else envelope.children)
            if name in self.elements and self.elements[name].qualified_name not in _ENVELOPE_NAMES
        )
        if len(payloads) > MAX_PAYLOADS:
            return ()
        like_own = any(self._may_be_envelope_element(self.elements[name]) for name in payloads)
        # An envelope inside a payload may contain any payloads.
        one_at_most = not like_own and not any(
            each.any or ENVELOPE in each.children for each in self.elements.values()
        )
        restricted = frozenset(payloads) if one_at_most else frozenset()

        def build(start: str, payload: str | None) -> DocumentGraph:
            key = (start, payload if restricted else None)
            if key not in self._documents:
                self._documents[key] = DocumentGraph(
                    self.elements,
                    self.namespaces,
                    start,
                    payload=payload,
                    payloads=restricted,
                    shared=self.shared,
                )
            return self._documents[key]

        scopes = [PayloadScope(name, build) for name in payloads]
        if like_own or not any(names.issubset(payloads) for names in envelope.content.one_of):
            scopes.append(PayloadScope(None, build))
        return tuple(scopes)

    def _may_be_envelope_element(self, element: DeclaredElement) -> bool:
        """True if it may be one of the envelope's own elements under another prefix."""
        uris = self.namespaces.get(element.prefix or "")
        return element.name in _ENVELOPE_ELEMENTS and (uris is None or NAMESPACE in uris)


def _iterate_labels(document: DocumentGraph) -> Iterator[tuple[str, LabelInfo]]:
    for node in document.elements:
        for edge in node.edge_labels:
            yield edge, LabelInfo(NodeKind.ELEMENT)
        for inner in node.children:
            if inner.kind is NodeKind.TEXT:
                for edge in inner.edge_labels:
                    yield edge, LabelInfo(NodeKind.TEXT)
        for inner in node.attributes:
            declared = inner.declaration
            assert isinstance(declared, DeclaredAttribute)
            yield inner.label, LabelInfo(NodeKind.ATTRIBUTE, inner.values, declared.default)
