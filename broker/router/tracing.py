"""One event at one node: whether it is in the log, who wants it here, and who is sent it (N7).

The answers of all nodes together tell where an event was filtered, denied, or is missing. A
question comes in two parts. The first has the EventId and a digest, and goes everywhere: nodes that
have the event answer without a value of it, and only to who knows its bytes. The second has the
document, and goes only where such an event may go: nodes without it say whether they want it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import attrs
import msgpack
from twisted.internet.defer import DeferredLock

from broker.content.contract import Accepted, DtdNeeded, IMatcher, TypeMissing
from broker.content.explaining.explanation import Explanation
from broker.content.query.query import Query
from broker.dtd.hint import FetchHint
from broker.dtd.interfaces import IDtdCache
from broker.errors import BrokerError
from broker.event.envelope import Header
from broker.router.deliverability import Deliverability
from broker.session import fields
from broker.store.damage import DamageFound
from broker.store.event_log import EventLog
from broker.store.records import LoggedEvent

#: The kind of question, for other nodes.
TRACE: Final = "event-trace"
#: A publisher's clock may be ahead of the node's by so many ms, and its event is still found.
SLACK: Final = 600_000
#: Pages of the log that are searched for an event, and events of a page.
MOST_PAGES: Final = 100
PAGE_EVENTS: Final = 256
PAGE_BYTES: Final = 1 << 20
#: Questions that wait for their turn; a further one is not answered.
MOST_WAITING: Final = 16
#: A larger document is not sent along: nodes without the event say nothing of their subscriptions.
MOST_DOCUMENT: Final = 256 << 10


class Ways(Protocol):
    """Who else is sent events of this node."""

    def wanted_here(self, matches: tuple[int, ...]) -> bool:
        """Whether a subscription of this node is among the matches."""

    def onward(self, matches: tuple[int, ...], rank: int) -> Iterable[tuple[str, bool]]:
        """The nodes and units that want it, and whether a way there is cleared for the rank."""


class NoWays:
    """Those of a node without a network."""

    def wanted_here(self, matches: tuple[int, ...]) -> bool:
        """Every match is a subscription's."""
        return bool(matches)

    def onward(self, matches: tuple[int, ...], rank: int) -> Iterable[tuple[str, bool]]:
        """There is nobody."""
        return ()


@attrs.frozen
class TraceQuestion:
    """What is asked of one event."""

    client_id: str = attrs.field(converter=fields.text)
    timestamp: int = attrs.field(converter=fields.count)
    number: int = attrs.field(converter=fields.count)
    incarnation: int = attrs.field(converter=fields.count)
    digest: bytes = attrs.field(converter=fields.octets)
    """SHA-256 of the document: another event under the same EventId is not told of."""
    document: bytes = attrs.field(converter=fields.octets, repr=False)
    """In the second part; empty in the first, and where it is too large."""
    client: str = attrs.field(converter=fields.text)
    """Whose subscriptions are looked at; nobody's when empty."""
    origin: str = attrs.field(converter=fields.text, default="")
    """In the second part: whose event it is; empty if no node has it."""
    second: bool = attrs.field(converter=fields.flag, default=False)

    @classmethod
    def of(cls, header: Header, document: bytes, client: str) -> TraceQuestion:
        """The question about an event with this header."""
        client_id, timestamp, number, incarnation = header.event_id
        return cls(
            *(client_id, timestamp, number, incarnation),
            hashlib.sha256(document).digest(),
            b"",
            client,
        )

    def with_document(self, document: bytes, origin: str) -> TraceQuestion:
        """The second part."""
        sent = document if len(document) <= MOST_DOCUMENT else b""
        return attrs.evolve(self, document=sent, origin=origin, second=True)

    def encode(self) -> bytes:
        """The bytes that travel between nodes."""
        packed: bytes = msgpack.packb(attrs.astuple(self))
        return packed

    @classmethod
    def decode(cls, data: bytes) -> TraceQuestion | None:
        """The question that `encode` wrote; None if it is none."""
        try:
            return cls(*msgpack.unpackb(data, use_list=False))
        except (ValueError, TypeError, msgpack.UnpackException, BrokerError):
            return None

    def is_about(self, event: LoggedEvent) -> bool:
        """Whether a logged event is the one."""
        client_id, timestamp, number, incarnation, *_ = msgpack.unpackb(event.record)
        wanted = (self.client_id, self.timestamp, self.number, self.incarnation)
        return (client_id, timestamp, number, incarnation) == wanted


class NodeTrace:
    """Answers for one node, one question at a time."""

    def __init__(
        self,
        *,
        log: EventLog,
        matcher: IMatcher,
        dtds: IDtdCache,
        deliverability: Deliverability,
        ways: Ways,
    ) -> None:
        self._log = log
        self._matcher = matcher
        self._dtds = dtds
        self._deliverability = deliverability
        self._ways = ways
        self._turn = DeferredLock()

    async def answer(self, content: bytes) -> tuple[bytes, int] | None:
        """For another node: the content, and the rank of what it tells."""
        question = TraceQuestion.decode(content)
        if question is None or len(self._turn.waiting) >= MOST_WAITING:
            return None
        found = await self.look(question)
        rank = int(found.pop("rank", 0))
        if not question.second:
            _leave_values_out(found)
            rank = 0
        return msgpack.packb(found), rank

    async def look(self, question: TraceQuestion) -> dict[str, Any]:
        """What this node knows, as plain content."""
        await self._turn.acquire()
        try:
            if question.second:
                covered = self._log.coverage[question.origin] if question.origin else None
                wanted = await self._wanted(question.document, question.client)
                return {"covered": covered, **wanted}
            return await self._told(question, await self._find(question))
        finally:
            self._turn.release()

    async def _find(self, question: TraceQuestion) -> LoggedEvent | None:
        serial = self._log.first_at(max(0, question.timestamp - SLACK))
        for _ in range(MOST_PAGES):
            try:
                events = await self._log.read(serial, PAGE_EVENTS, PAGE_BYTES, wait=False)
            except DamageFound as found:
                serial = found.damage.last + 1
                continue
            for event in events:
                if question.is_about(event):
                    return event
            if not events:
                break
            serial = events[-1].serial + 1
        return None

    async def _told(self, question: TraceQuestion, event: LoggedEvent | None) -> dict[str, Any]:
        if event is None:
            return {"place": None}
        if hashlib.sha256(event.document).digest() != question.digest:
            return {"place": None, "other": True}
        return {
            "place": (event.origin, *event.mark),
            "is_origin": event.origin == self._log.origin,
            **await self._wanted(event.document, question.client),
        }

    async def _wanted(self, document: bytes, client: str) -> dict[str, Any]:
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
        told: dict[str, Any] = {
            "rank": rank,
            "wanted_here": self._ways.wanted_here(matches),
            "onward": list(self._ways.onward(matches, rank)),
        }
        if client:
            told["client"] = self._subscriptions(client, document)
        return told

    def _subscriptions(self, client: str, document: bytes) -> Mapping[str, Any] | None:
        def explain(query: Query) -> Explanation:
            explanation: Explanation = self._matcher.explain(query, document, shapes=False)
            return explanation

        try:
            found = self._deliverability.of(client, explain)
        except DtdNeeded:
            return None
        # What a person reads of each subscription: findings may be long.
        for each in found["subscriptions"]:
            each.pop("finding", None)
        return found


def _leave_values_out(found: Mapping[str, Any]) -> None:
    """What is told of subscriptions must not show a value of the event."""
    for each in (found.get("client") or {}).get("subscriptions", ()):
        if each.get("verdict") in ("query", "unevaluated", "refused"):
            each["reason"] = "the query does not match"
