"""A query compiled by lxml, and what of an event it is evaluated on."""

from __future__ import annotations

import copy
from typing import Any

from lxml import etree

from broker.content.envelope import EnvelopeParts
from broker.content.query.namespaces import ENVELOPE_PREFIX
from broker.content.query.paths import ENVELOPE_VARIABLE, PAYLOAD_VARIABLE
from broker.content.query.query import Query
from broker.content.query.tree import FunctionCall
from broker.event.envelope import NAMESPACE, Header, Liveness

_VALUES: dict[str, Any] = {
    "StreamId": lambda header: header.stream,
    "ClientId": lambda header: header.event_id.client_id,
    "TimeStamp": lambda header: float(header.event_id.timestamp),
    "SequenceNumber": lambda header: float(header.event_id.sequence_number),
    "Incarnation": lambda header: float(header.event_id.incarnation),
    "VersionNum": lambda header: header.version,
    "EventType": lambda header: header.type_name,
    "Securitylevel": lambda header: header.security_level.value,
}


class Subject:
    """One event as queries see it; its parts are made when the first query needs them."""

    __slots__ = ("_document", "_envelope", "_liveness", "_payload", "header")

    def __init__(
        self, envelope: etree._Element, parts: EnvelopeParts, liveness: Liveness | None = None
    ) -> None:
        """`liveness` is the effective value (DESIGN 5), the document's own if None."""
        self.header: Header = parts.header
        self._envelope = envelope
        self._payload = parts.payload
        self._liveness = liveness or parts.header.liveness
        self._document: etree._Element | None = None

    @property
    def envelope(self) -> etree._Element:
        """The envelope's root element."""
        return self._envelope

    def document(self) -> etree._Element:
        """The root of the document that queries address: the payload's, else the envelope's.

        A copy: only a document of its own makes `/` the payload's.
        """
        if self._document is None:
            if self._payload is None:
                self._document = self._envelope
            else:
                # lxml copies the text behind an element along, as a sibling of the new root.
                self._document = copy.deepcopy(self._payload)
                if self._payload.tail is not None:
                    self._document.tail = None
        return self._document

    def variable(self, name: str) -> Any:
        """The value of an envelope variable."""
        if name == "Liveness":
            return self._liveness.value
        return _VALUES[name](self.header)


class CompiledQuery:
    """A query ready to run: `boolean(query)`, so that no node-set becomes a Python list."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self._xpath = etree.XPath(
            f"boolean({query.compilable})",
            namespaces={**dict(query.namespaces), ENVELOPE_PREFIX: NAMESPACE},
            regexp=False,
            smart_strings=False,
        )
        self._variables = tuple(query.variables)
        self._on_payload = query.uses_payload
        self._on_both = query.uses_envelope
        self._simple = not (self._variables or self._on_both) and self._on_payload
        #: The query `true()`: every event of its streams.
        self.always = isinstance(query.expression, FunctionCall) and query.expression.name == "true"

    def matches(self, subject: Subject) -> bool:
        """The query's boolean value; raises `etree.XPathError` if libxml2 gives up."""
        if self._simple:
            return bool(self._xpath(subject.document()))
        values: dict[str, Any] = {name: subject.variable(name) for name in self._variables}
        context = subject.document() if self._on_payload else subject.envelope
        if self._on_both:
            values[ENVELOPE_VARIABLE] = [subject.envelope]
            values[PAYLOAD_VARIABLE] = [context]
        return bool(self._xpath(context, **values))
