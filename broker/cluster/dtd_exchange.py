"""DTDs from other nodes (Mspaces M14): ask one node after the other, and answer their questions."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import attrs
from twisted.internet.defer import Deferred
from zope.interface import implementer

from broker.cluster.address import Address
from broker.cluster.traffic.frame import MAX_HOPS
from broker.cluster.traffic.messages import DtdAnswer, DtdRequest, RoutedMessage
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtd, IDtdSource
from broker.dtd.reference import DtdReference
from broker.errors import BadName, BrokerError, PeerSilent, UnknownType, from_wire
from broker.transport.clock import IClock
from broker.transport.open_requests import OpenRequests
from broker.wire.messages import NO_ERROR

#: Seconds; the second follows an answer with the wrong hash.
ANSWER_TIMEOUT = 2.5
OTHER_TEXT_TIMEOUT = 1.0
MOST_TARGETS = 8
#: The cache asks for each type once.
MOST_ASKED = 256
#: Further questions get no DTD.
MOST_WAITING = 256
#: Seconds.
SILENT_PERIOD = 30.0
MOST_TEXTS = 3

_Key: TypeAlias = tuple[str, str, Address]


@attrs.frozen
class DtdContext:
    own_address: Callable[[], Address | None]
    next_hop: Callable[[Address], Address | None]
    neighbours: Callable[[], Iterable[Address]]
    held_dtds: Callable[[DtdReference], Sequence[IDtd]]
    """The one in force here, then variants."""
    pending_dtd: Callable[[DtdReference], Deferred[IDtd] | None]
    """A DTD that is being fetched or is announced."""


@implementer(IDtdSource)
class DtdExchange:
    """Asks other nodes for DTDs, and answers them from the cache (Mspaces M14)."""

    name = "other nodes"

    def __init__(self, clock: IClock) -> None:
        self._clock = clock
        self._context: DtdContext | None = None
        self._send: Callable[[RoutedMessage], object] = lambda _: None
        self._questions = OpenRequests[_Key, DtdAnswer](clock, MOST_ASKED)
        self._silent_until: dict[Address, float] = {}
        self._waiting = 0
        self.asked = 0
        self.answered = 0
        self.dropped: Counter[str] = Counter()
        """Useless answers: `unasked`, `wrong-hash`, `bad-name`."""

    def set_sender(self, send: Callable[[RoutedMessage], object]) -> None:
        self._send = send

    def set_context(self, context: DtdContext) -> None:
        self._context = context

    def fetch(self, reference: DtdReference, hint: FetchHint) -> Deferred[bytes]:
        """Ask one node after the other. Fails with `UnknownType`."""
        return Deferred.fromCoroutine(self._fetch(reference, hint))

    async def _fetch(self, reference: DtdReference, hint: FetchHint) -> bytes:
        reasons = []
        for target in self._targets(hint):
            try:
                return await self._ask(target, reference, reference.variant or hint.content_hash)
            except BrokerError as error:
                reasons.append(f"{target}: {error}")
        raise UnknownType("; ".join(reasons) or "no node can be asked")

    def _targets(self, hint: FetchHint) -> list[Address]:
        """Return the nodes to ask, silent ones last."""
        context = self._context
        own = None if context is None else context.own_address()
        if context is None or own is None:
            return []
        origin = hint.link if isinstance(hint.link, Address) and hint.link.node else None
        via = hint.via if isinstance(hint.via, Address) else None
        if via is None and isinstance(hint.link, Address):
            via = context.next_hop(hint.link)
        first = [] if via is None else [via]
        neighbours = [*first, *context.neighbours()][: MOST_TARGETS - 1]
        chosen = dict.fromkeys([*neighbours, *([] if origin is None else [origin])])
        chosen.pop(own, None)
        now = self._clock.seconds()
        return sorted(chosen, key=lambda each: self._silent_until.get(each, 0.0) > now)

    async def _ask(self, target: Address, reference: DtdReference, content_hash: str) -> bytes:
        assert self._context is not None
        own = self._context.own_address()
        key = (reference.type, reference.version, target)
        if own is None or key in self._questions or self._questions.is_full:
            raise UnknownType("too many questions for DTDs are open")
        self.asked += 1
        found = self._questions.add(key, ANSWER_TIMEOUT)
        self._send(DtdRequest(target, own, MAX_HOPS, reference.type, reference.version))
        has_other_text = False
        while (answer := await found) is not None:
            self._silent_until.pop(target, None)
            if answer.error[0]:
                raise from_wire(answer.error)
            if content_hash in ("", hashlib.sha256(answer.text).hexdigest()):
                return answer.text
            self.dropped["wrong-hash"] += 1
            # A node with several texts for this version sends the others next.
            has_other_text = True
            found = self._questions.add(key, OTHER_TEXT_TIMEOUT)
        if has_other_text:
            raise UnknownType("its text does not have the announced hash")
        self._silent_until.pop(target, None)
        self._silent_until[target] = self._clock.seconds() + SILENT_PERIOD
        if len(self._silent_until) > MOST_ASKED:
            del self._silent_until[next(iter(self._silent_until))]
        raise PeerSilent(f"no answer in {ANSWER_TIMEOUT:g} seconds")

    def receive_message(self, message: DtdRequest | DtdAnswer) -> None:
        if isinstance(message, DtdAnswer):
            key = (message.type, message.version, message.source)
            if not self._questions.settle(key, message):
                self.dropped["unasked"] += 1
            return
        try:
            reference = DtdReference(message.type, message.version)
        except BadName:
            self.dropped["bad-name"] += 1
            return
        self._receive_question(message, reference)

    def _receive_question(self, message: DtdRequest, reference: DtdReference) -> None:
        context = self._context
        if context is None:
            return
        texts = context.held_dtds(reference)
        is_asked_here = (message.type, message.version, message.source) in self._questions
        if not texts and not is_asked_here and self._waiting < MOST_WAITING:
            coming = context.pending_dtd(reference)
            if coming is not None:
                self._waiting += 1
                coming.addBoth(lambda _: self._answer_waiting(message, reference))
                return
        self._send_texts(message, reference, texts)

    def _answer_waiting(self, message: DtdRequest, reference: DtdReference) -> None:
        self._waiting -= 1
        assert self._context is not None
        self._send_texts(message, reference, self._context.held_dtds(reference))

    def _send_texts(
        self, message: DtdRequest, reference: DtdReference, texts: Sequence[IDtd]
    ) -> None:
        own = None if self._context is None else self._context.own_address()
        if own is None:
            return
        self.answered += 1
        type_fields = (message.type, message.version)
        if not texts:
            unknown = UnknownType(f"{own} has no DTD for {reference}")
            self._send(
                DtdAnswer(message.source, own, MAX_HOPS, *type_fields, unknown.to_wire(), b"")
            )
        for dtd in texts[:MOST_TEXTS]:
            self._send(DtdAnswer(message.source, own, MAX_HOPS, *type_fields, NO_ERROR, dtd.text))
