"""One event at one node: whether it is in the log, who wants it here, and who is sent it (N7).

The answers of all nodes together tell where an event was filtered, denied, or is missing. A
question comes in two parts. The first has the EventId and a digest, and goes everywhere: nodes that
find the event answer with its place and its ways onward. The second has the document and the place,
and goes only where such an event may go: nodes say whether they want the event, and what becomes of
it for the subscriptions of a client.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, TypeAlias

import msgpack
import msgspec
from twisted.internet.defer import DeferredLock

from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtdCache
from broker.errors import BrokerError, ProtocolError
from broker.event.event_id import EventId
from broker.event.place import Place
from broker.log.damage import DamageFound
from broker.log.event_log import EventLog
from broker.log.logged_event import LoggedEvent
from broker.matching.contract import Accepted, DtdNeeded, IMatcher, TypeMissing
from broker.matching.explain.explanation import Explanation
from broker.matching.query.query import Query
from broker.tracing.deliverability import DeliveryFates
from broker.wire.codec import Count, Epoch, Offset, Schema, pack

#: The kind of question, for other nodes.
TRACE_QUESTION: Final = "event-trace"
#: A publisher's clock may be ahead of the node's by so many ms, and its event is still found.
MAX_CLOCK_LEAD_MS: Final = 600_000
#: Most clocks are ahead by less: the log is searched from there first.
USUAL_CLOCK_LEAD_MS: Final = 1_000
#: Pages of the log that are searched for an event in each of these two stretches, and events of a
#: page.
MAX_PAGES: Final = 100
PAGE_EVENTS: Final = 256
PAGE_BYTES: Final = 1 << 20
#: Questions that wait for their turn; a further one is not answered.
MAX_WAITING: Final = 16
#: A larger document is not sent along: nodes without the event say nothing of their subscriptions.
MAX_DOCUMENT_BYTES: Final = 256 << 10
#: Bytes of the subscriptions in an answer; those left out are counted.
MAX_ROW_BYTES: Final = 32 << 10
#: The answer to the first part.
_FIRST_PART_KEYS: Final = ("place", "is_origin", "onward", "partly")


class IEventRoutes(Protocol):
    """Who else is sent events of this node."""

    def has_local_match(self, matches: tuple[int, ...]) -> bool:
        """Whether a subscription of this node is among the matches."""

    def destinations(self, matches: tuple[int, ...], rank: int) -> Iterable[tuple[str, bool]]:
        """The nodes and units that want it, and whether a way there is cleared for the rank."""


class NoRoutes:
    """Those of a node without a network."""

    def has_local_match(self, matches: tuple[int, ...]) -> bool:
        """Every match is a subscription's."""
        return bool(matches)

    def destinations(self, matches: tuple[int, ...], rank: int) -> Iterable[tuple[str, bool]]:
        """There is nobody."""
        return ()


#: Origin, epoch and offset.
EventPlace: TypeAlias = tuple[str, Epoch, Offset]


class TraceQuestion(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What is asked of one event."""

    client_id: str
    timestamp: Count
    number: Count
    incarnation: Count
    digest: bytes
    """SHA-256 of the document: another event under the same EventId is not told of."""
    document: bytes
    """In the second part; empty in the first, and where it is too large."""
    client: str
    """Whose subscriptions are looked at, in the second part; nobody's when empty."""
    place: EventPlace | None = None
    """In the second part: where a node has found it."""

    @classmethod
    def of(cls, event_id: EventId, document: bytes, client: str) -> TraceQuestion:
        """The first part of the question about an event."""
        client_id, timestamp, number, incarnation = event_id
        return cls(
            *(client_id, timestamp, number, incarnation),
            hashlib.sha256(document).digest(),
            b"",
            client,
        )

    def with_document(self, document: bytes, place: EventPlace) -> TraceQuestion:
        """The second part."""
        sent = document if len(document) <= MAX_DOCUMENT_BYTES else b""
        return msgspec.structs.replace(self, document=sent, place=place)

    def encode(self) -> bytes:
        """The bytes that travel between nodes."""
        return pack(self)

    @classmethod
    def decode(cls, data: bytes) -> TraceQuestion | None:
        """The question that `encode` wrote; None if it is none."""
        try:
            return _QUESTION.decode(data)
        except ProtocolError:
            return None

    def is_about(self, event: LoggedEvent) -> bool:
        """Whether a logged event is the one: its EventId alone does not make it that."""
        client_id, timestamp, number, incarnation, *_ = msgpack.unpackb(event.record)
        wanted = (self.client_id, self.timestamp, self.number, self.incarnation)
        return (client_id, timestamp, number, incarnation) == wanted and hashlib.sha256(
            event.document
        ).digest() == self.digest


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
    ) -> None:
        self._log = log
        self._matcher = matcher
        self._dtds = dtds
        self._delivery_fates = delivery_fates
        self._routes = routes
        self._lock = DeferredLock()

    async def answer_question(self, content: bytes) -> tuple[bytes, int] | None:
        """For another node: the content, and the rank of what it tells."""
        question = TraceQuestion.decode(content)
        if question is None or len(self._lock.waiting) >= MAX_WAITING:
            return None
        found = await self.trace_event(question)
        rank = int(found.pop("rank", 0))
        if question.place is None:
            # It goes over links that are not cleared for the event.
            return pack({key: found[key] for key in _FIRST_PART_KEYS if key in found}), 0
        return pack(found), rank

    async def trace_event(self, question: TraceQuestion) -> dict[str, Any]:
        """What this node knows, as plain content."""
        await self._lock.acquire()
        try:
            if question.place is None:
                event, partly = await self._search_log(question)
                return {**await self._build_content(question, event), "partly": partly}
            content = await self._build_content(
                question, await self._read_at(question.place, question)
            )
            return {**content, "covered": self._log.coverage[question.place[0]]}
        finally:
            self._lock.release()

    async def _search_log(self, question: TraceQuestion) -> tuple[LoggedEvent | None, bool]:
        """The event, if it is found; and whether part of the log was left out.

        Another event under the same EventId ends no search: how long that takes would tell of it.
        """
        log, partly = self._log, False
        near, far = (
            log.first_at(max(0, question.timestamp - ms))
            for ms in (USUAL_CLOCK_LEAD_MS, MAX_CLOCK_LEAD_MS)
        )
        for start, end in ((near, log.bounds.last + 1), (far, near)):
            serial = max(start, log.bounds.first)
            for _ in range(MAX_PAGES):
                if serial >= end:
                    break
                try:
                    events = await log.read(serial, PAGE_EVENTS, PAGE_BYTES, wait=False)
                except DamageFound as found:
                    serial = found.damage.last + 1
                    continue
                for event in events:
                    if question.is_about(event):
                        return event, False
                serial = events[-1].serial + 1 if events else end
            partly = partly or serial < end
        return None, partly

    async def _read_at(self, place: EventPlace, question: TraceQuestion) -> LoggedEvent | None:
        """The event, if it is in the log at a place."""
        origin, epoch, offset = place
        try:
            events = await self._log.read_origin(
                origin, (epoch, max(0, offset - 1)), 1, PAGE_BYTES, wait=False
            )
        except DamageFound:
            return None
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
        # It may have another place here: its publisher has sent it to two nodes, then.
        place = Place(event.origin, *event.mark)
        client = "" if question.place is None else question.client
        return {
            "place": (event.origin, *event.mark),
            "is_origin": event.origin == self._log.origin,
            **await self._match_document(event.document, client, place),
        }

    async def _match_document(
        self, document: bytes, client: str, place: Place | None
    ) -> dict[str, Any]:
        """Who wants such an event: empty where that can not be told."""
        if not document:
            return {}
        (verdict,) = self._matcher.match([document])
        if isinstance(verdict, TypeMissing):
            try:
                # Not from where the event points to: nobody publishes it.
                await self._dtds.lookup(verdict.reference, FetchHint())
            except BrokerError:
                return {}
            (verdict,) = self._matcher.match([document])
        if not isinstance(verdict, Accepted):
            return {}
        matches, rank = verdict.subscriptions, verdict.header.security_level.rank
        content: dict[str, Any] = {
            "rank": rank,
            "wanted_here": self._routes.has_local_match(matches),
            "onward": list(self._routes.destinations(matches, rank)),
        }
        if client:
            content["client"] = self._client_rows(client, document, place)
        return content

    def _client_rows(
        self, client: str, document: bytes, place: Place | None
    ) -> Mapping[str, Any] | None:
        def explain(query: Query) -> Explanation:
            explanation: Explanation = self._matcher.explain(query, document, shapes=False)
            return explanation

        try:
            found = self._delivery_fates.find_fates(client, explain, place)
        except DtdNeeded:
            return None
        # What a person reads of each subscription: findings may be long, and so may queries.
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
