"""Evaluation of queries by lxml: the parsed event and the compiled expression."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, cast

import attrs
from lxml import etree

from broker.event.envelope import ENVELOPE_PREFIX, NAMESPACE, Header, Liveness
from broker.matching.document_limits import SHALLOW_DEPTH
from broker.matching.envelope import EnvelopeParts
from broker.matching.query.extension_function import EXTENSION_FUNCTIONS
from broker.matching.query.parser import ENVELOPE_VARIABLE, PAYLOAD_VARIABLE
from broker.matching.query.query import Query
from broker.matching.separate_names import call_separately

if TYPE_CHECKING:
    from broker.matching.partial.evaluation_input import EvaluationInput

_VALUES: dict[str, Any] = {
    "StreamId": lambda header: header.stream,
    "ClientId": lambda header: header.event_id.client_id,
    "TimeStamp": lambda header: float(header.event_id.timestamp),
    "SequenceNumber": lambda header: float(header.event_id.sequence_number),
    "Incarnation": lambda header: float(header.event_id.incarnation),
    "VersionNum": lambda header: header.version,
    "EventType": lambda header: header.type_name,
    "Securitylevel": lambda header: header.security_level.value,
    "Validation": lambda header: header.validation.value,
}

_NODES = etree.XPath("count(//node()) + count(//@*)")
_DEEPER = etree.XPath(f"boolean({'/*' * (SHALLOW_DEPTH + 1)})")


class ParsedEvent:
    """One event as queries see it. Its parts are made at first use."""

    __slots__ = (
        "_depth",
        "_document",
        "_envelope",
        "_keep_names",
        "_liveness",
        "_payload",
        "evaluation_input",
        "header",
    )

    evaluation_input: EvaluationInput | None
    """Set by `evaluation_input_of`, without a value before."""

    def __init__(
        self,
        envelope: etree._Element,
        parts: EnvelopeParts,
        liveness: Liveness | None = None,
        *,
        keep_names: bool = True,
    ) -> None:
        """`liveness` is the effective value (DESIGN 5); None means the document's own. Without
        `keep_names`, the names of the tree are not stored until the process ends."""
        self.header: Header = parts.header
        self._envelope = envelope
        self._payload = parts.payload
        self._liveness = liveness or parts.header.liveness
        self._document: etree._Element | None = None
        self._depth = 0
        self._keep_names = keep_names

    @property
    def envelope(self) -> etree._Element:
        return self._envelope

    def document(self) -> etree._Element:
        """Return the root of the queried document: a copy of the payload, else the envelope.

        Only in a separate document does `/` select the payload.
        """
        if self._document is None:
            if self._payload is None:
                self._document = self._envelope
            else:
                # lxml also copies the text after an element.
                copy_payload = partial(copy.deepcopy, self._payload)
                self._document = (
                    copy_payload() if self._keep_names else call_separately(copy_payload)
                )
                if self._payload.tail is not None:
                    self._document.tail = None
        return self._document

    @property
    def depth(self) -> int:
        """The depth of nested elements, including the envelope's."""
        if not self._depth:
            level = [self._envelope]
            while level:
                self._depth += 1
                level = [child for element in level for child in element]
        return self._depth

    def count_nodes(self, *, envelope: bool) -> int:
        """Return the number of nodes that queries see, with or without the envelope's."""
        count = int(cast(float, _NODES(self.document())))
        return max(count, int(cast(float, _NODES(self._envelope)))) if envelope else count

    @property
    def is_shallow(self) -> bool:
        """True if at most `SHALLOW_DEPTH` elements are nested. Faster than `depth`."""
        return not _DEEPER(self._envelope)

    def variable(self, name: str) -> Any:
        if name == "Liveness":
            return self._liveness.value
        return _VALUES[name](self.header)


@attrs.frozen(slots=True)
class QueryInputs:
    """The parts of an event that a query reads, and True for calls of extension functions."""

    payload: bool
    envelope: bool
    variables: frozenset[str]
    functions: bool


@lru_cache(maxsize=1024)
def _shared_inputs(
    payload: bool, envelope: bool, variables: frozenset[str], functions: bool
) -> QueryInputs:
    return QueryInputs(payload, envelope, variables, functions)


def query_inputs(query: Query) -> QueryInputs:
    """Return the inputs of a query, one object for all with equal inputs."""
    return _shared_inputs(
        query.uses_payload, query.uses_envelope, query.variables, query.uses_extension_functions
    )


class CompiledXPath:
    """A compiled expression, as `boolean(...)`, so that lxml makes no list of a node-set."""

    __slots__ = ("_calls", "_inputs", "_simple", "_xpath")

    def __init__(
        self,
        compilable: str,
        namespaces: tuple[tuple[str, str], ...],
        reading: QueryInputs,
        calls: Sequence[str] = (),
    ) -> None:
        def compiled(text: str) -> etree.XPath:
            return etree.XPath(
                text,
                namespaces={**dict(namespaces), ENVELOPE_PREFIX: NAMESPACE},
                extensions=EXTENSION_FUNCTIONS if reading.functions else None,
                regexp=False,
                smart_strings=False,
            )

        self._xpath = compiled(f"boolean({compilable})")
        self._calls = {f"i{place}": compiled(call) for place, call in enumerate(calls)}
        self._inputs = reading
        self._simple = reading.payload and not (reading.variables or reading.envelope or calls)

    def matches(self, subject: ParsedEvent) -> bool:
        """Return the value. Raises `etree.XPathError` or `QueryTooExpensive`."""
        if self._simple:
            return bool(self._xpath(subject.document()))
        reading = self._inputs
        values: dict[str, Any] = {name: subject.variable(name) for name in reading.variables}
        context = subject.document() if reading.payload else subject.envelope
        if reading.envelope:
            values[ENVELOPE_VARIABLE] = [subject.envelope]
            values[PAYLOAD_VARIABLE] = [context]
        if self._calls:
            values |= {name: call(context, **values) for name, call in self._calls.items()}
        return bool(self._xpath(context, **values))


def compile_query(query: Query) -> CompiledXPath:
    return CompiledXPath(query.compilable, query.namespaces, query_inputs(query))
