"""Trace of one event at one node: in its log, of interest, and its destinations (N7).

The question has two parts. The first has the EventId and a digest, and goes to all nodes. Nodes
with the event return its place and destinations. The second has the document and the place, and
goes only where the event may go. Nodes return whether they have interest, and the event's fate for
a client's subscriptions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypedDict

import msgspec
from twisted.internet.defer import DeferredLock

from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtdCache
from broker.errors import BrokerError, ProtocolError
from broker.event.envelope import Validation
from broker.event.event_id import EventId
from broker.event.flow import is_default_flow, pattern_of
from broker.event.place import Place
from broker.log.damage import DamageFound
from broker.log.event_log import EventLog
from broker.log.logged_event import LoggedEvent, validation_of
from broker.matching.contract import NO_VARIANTS, Accepted, DtdNeeded, IMatcher, TypeMissing
from broker.matching.explain.explanation import Explanation
from broker.matching.query.query import Query
from broker.matching.undescribed import EVERY_TYPE_UNDESCRIBED
from broker.tracing.deliverability import DeliveryFates
from broker.tracing.log_search import PAGE_BYTES, event_id_of, search_log
from broker.wire.codec import Count, Epoch, Offset, Schema, pack

TRACE_QUESTION: Final = "event-trace"
#: A further question is not answered.
MAX_WAITING: Final = 16
#: A larger document is not sent. Nodes without the event then can not check subscriptions.
MAX_DOCUMENT_BYTES: Final = 256 << 10
#: Characters of the error that has stopped a stack.
MAX_ERROR: Final = 500
#: Of subscriptions in an answer; further ones are counted.
MAX_ROW_BYTES: Final = 32 << 10
_FIRST_PART_KEYS: Final = ("place", "is_origin", "onward", "partly")


class IEventRoutes(Protocol):
    """Destinations of this node's events."""

    def has_local_match(self, matches: tuple[int, ...]) -> bool:
        """Return whether a subscription of this node is among the matches."""

    def destinations(self, matches: tuple[int, ...], rank: int) -> Iterable[tuple[str, bool]]:
        """Yield destinations, and whether a route to each is cleared for the rank."""


class NoRoutes:
    """Used without a network."""

    def has_local_match(self, matches: tuple[int, ...]) -> bool:
        return bool(matches)

    def destinations(self, matches: tuple[int, ...], rank: int) -> Iterable[tuple[str, bool]]:
        return ()


class FlowStacks(Protocol):
    """`broker.streams.transports.StreamTransports`."""

    def pattern_of_stream(self, stream: str) -> str: ...
    def describe_stack(self, pattern: str) -> dict[str, str]: ...


class FlowStack(TypedDict):
    """The stack that carries a flow at a node; empty texts if none does."""

    name: str
    use: str
    """Its transport."""
    error: str
    """Reason of its stop."""


EventPlace: TypeAlias = tuple[str, Epoch, Offset]


class TraceQuestion(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    client_id: str
    timestamp: Count
    number: Count
    incarnation: Count
    digest: bytes
    """SHA-256 of the document: another event with the same EventId is not revealed."""
    document: bytes
    """Empty in the first part, and if it is too large."""
    client: str
    """Its subscriptions are checked in the second part; empty: none."""
    place: EventPlace | None = None
    """Set in the second part: the place that a node has found."""

    @classmethod
    def of(cls, event_id: EventId, document: bytes, client: str) -> TraceQuestion:
        client_id, timestamp, number, incarnation = event_id
        return cls(
            *(client_id, timestamp, number, incarnation),
            hashlib.sha256(document).digest(),
            b"",
            client,
        )

    def with_document(self, document: bytes, place: EventPlace) -> TraceQuestion:
        sent = document if len(document) <= MAX_DOCUMENT_BYTES else b""
        return msgspec.structs.replace(self, document=sent, place=place)

    def encode(self) -> bytes:
        return pack(self)

    @classmethod
    def decode(cls, data: bytes) -> TraceQuestion | None:
        """Return None if the question is malformed."""
        try:
            return _QUESTION.decode(data)
        except ProtocolError:
            return None

    def is_about(self, event: LoggedEvent) -> bool:
        asked = EventId(self.client_id, self.timestamp, self.number, self.incarnation)
        return (
            event_id_of(event) == asked and hashlib.sha256(event.document).digest() == self.digest
        )


_QUESTION: Final = Schema[TraceQuestion](TraceQuestion, "question about an event")


class NodeTrace:
    """Answers for one node, one question at a time."""

    def __init__(
        self,
        *,
        log: EventLog,
        matcher: IMatcher,
        dtds: IDtdCache,
        delivery_fates: DeliveryFates,
        routes: IEventRoutes,
        stacks: FlowStacks | None = None,
    ) -> None:
        """Without a network there are no `stacks`."""
        self._log = log
        self._matcher = matcher
        self._dtds = dtds
        self._delivery_fates = delivery_fates
        self._routes = routes
        self._stacks = stacks
        self._lock = DeferredLock()

    async def answer_question(self, content: bytes) -> tuple[bytes, int] | None:
        """Return the answer with the rank that links need for it."""
        question = TraceQuestion.decode(content)
        if question is None or len(self._lock.waiting) >= MAX_WAITING:
            return None
        found = await self.trace_event(question)
        rank = int(found.pop("rank", 0))
        if question.place is None:
            # It passes links that are not cleared for the event.
            return pack({key: found[key] for key in _FIRST_PART_KEYS if key in found}), 0
        return pack(found), rank

    def pattern_of_stream(self, stream: str) -> str:
        """Return the carrying pattern of a stream; empty: the default stack carries it."""
        return "" if self._stacks is None else self._stacks.pattern_of_stream(stream)

    def describe_stack(self, pattern: str) -> FlowStack:
        if self._stacks is None:
            return FlowStack(name="", use="", error="")
        found = self._stacks.describe_stack(pattern)
        return FlowStack(name=found["name"], use=found["use"], error=found["error"][:MAX_ERROR])

    async def trace_event(self, question: TraceQuestion) -> dict[str, Any]:
        await self._lock.acquire()
        try:
            if question.place is None:
                event, partly = await search_log(self._log, question.timestamp, question.is_about)
                return {**await self._build_content(question, event), "partly": partly}
            content = await self._build_content(
                question, await self._read_at(question.place, question)
            )
            flow = question.place[0]
            if not is_default_flow(flow):
                content["stack"] = self.describe_stack(pattern_of(flow))
            return {**content, "covered": self._log.coverage[flow]}
        finally:
            self._lock.release()

    async def _read_at(self, place: EventPlace, question: TraceQuestion) -> LoggedEvent | None:
        flow, epoch, offset = place
        log = self._log
        try:
            events = await log.read_unsigned(
                log.origin if log.flows.is_own(flow) else flow,
                *((epoch, max(0, offset - 1)), 1, PAGE_BYTES),
                wait=False,
            )
        except DamageFound:
            return None
        log.flows.label_own(events)
        return next((event for event in events if question.is_about(event)), None)

    async def _build_content(
        self, question: TraceQuestion, event: LoggedEvent | None
    ) -> dict[str, Any]:
        if event is None:
            place = None if question.place is None else Place(*question.place)
            return {
                "place": None,
                **await self._match_document(question.document, question.client, place),
            }
        # The place differs if its publisher sent it to two nodes.
        place = Place(event.origin, *event.mark)
        client = "" if question.place is None else question.client
        is_withheld = event.is_withheld and self._log.coverage[event.origin] < event.mark
        return {
            **({"withheld": True} if is_withheld else {}),
            "place": (event.origin, *event.mark),
            "is_origin": self._log.flows.is_own(event.origin),
            **await self._match_document(
                event.document, client, place, validation_of(event.record)
            ),
        }

    async def _match_document(
        self,
        document: bytes,
        client: str,
        place: Place | None,
        validation: Validation = Validation.DESCRIBED,
    ) -> dict[str, Any]:
        """Return interest and destinations; empty if unknown."""
        if not document:
            return {}
        is_undescribed = validation is Validation.UNDESCRIBED
        match = partial(
            self._matcher.match,
            [document],
            variants=EVERY_TYPE_UNDESCRIBED if is_undescribed else NO_VARIANTS,
            marked=validation is Validation.MARKED,
        )
        (verdict,) = match()
        if isinstance(verdict, TypeMissing):
            try:
                # Without the event's pointer, because nobody publishes it.
                await self._dtds.lookup(verdict.reference, FetchHint())
            except BrokerError:
                return {}
            (verdict,) = match()
        if not isinstance(verdict, Accepted):
            return {}
        matches, rank = verdict.subscriptions, verdict.header.security_level.rank
        content: dict[str, Any] = {
            "rank": rank,
            "wanted_here": self._routes.has_local_match(matches),
            "onward": list(self._routes.destinations(matches, rank)),
        }
        if client:
            content["client"] = await self._client_rows(client, document, place)
        return content

    async def _client_rows(
        self, client: str, document: bytes, place: Place | None
    ) -> Mapping[str, Any] | None:
        def explain(query: Query) -> Explanation:
            explanation: Explanation = self._matcher.explain(query, document, shapes=False)
            return explanation

        try:
            found = await self._delivery_fates.find_fates(client, explain, place)
        except DtdNeeded:
            return None
        # Findings can be long.
        rows: list[Any] = []
        left_out, size = found["left_out"], 0
        for each in found["subscriptions"]:
            each.pop("finding", None)
            size += len(pack(each))
            if size > MAX_ROW_BYTES:
                left_out += 1
            else:
                rows.append(each)
        return {"subscriptions": rows, "left_out": left_out}
