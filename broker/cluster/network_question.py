"""Questions to all nodes of the network, by scatter and gather.

`docs/protocols/questions.md` has the states. Each node is asked once. Each hop passes on a share of
the time limit, so that answers arrive in time. Neighbours of version 1 do not forward these
messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import attrs
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.logger import Logger

from broker.cluster.address import Address, UnitPath, address_or_none, is_within, unit_text
from broker.cluster.gateway_rotation import GatewayRotation
from broker.cluster.messages import CODEC, MAX_CONTROL
from broker.cluster.node_messenger import NodeMessenger
from broker.cluster.node_requests import NodeRequests
from broker.cluster.traffic.frame import MAX_HOPS
from broker.cluster.traffic.messages import NumberedMessage
from broker.errors import BadSignature, ProtocolError
from broker.transport.clock import IClock
from broker.wire.codec import Address as AddressText
from broker.wire.codec import Count, Rank

#: Ms. The nodes that a gateway asks have `_SHARE` of its time.
ANSWER_TIME: Final = 3_000
_SHARE: Final = 0.6
#: Bytes of one node's answer, and of a message.
MOST_ANSWER: Final = 64 << 10
MOST_ANSWERS: Final = MAX_CONTROL // 2
#: Bytes.
MOST_CONTENT: Final = MAX_CONTROL // 2
#: At the limit a node answers no questions.
MOST_OPEN: Final = 1_000

#: The clearance is that of the answer's content.
NodeAnswer: TypeAlias = tuple[bytes, int] | None
NodeAnswerer: TypeAlias = Callable[[bytes], Any]
#: Without a node the unit is silent.
_Target: TypeAlias = tuple[Address | None, UnitPath | None]


@CODEC.register
class Question(NumberedMessage, frozen=True):
    """Answer this; with a unit, also ask all other nodes of that unit."""

    kind = 0x90
    least_version: ClassVar[int] = 2

    topic: str
    content: bytes
    unit: UnitPath | None
    within: Count
    """Ms."""
    rank: Rank

    @property
    def level(self) -> int:
        return self.rank


@CODEC.register
class Reply(NumberedMessage, frozen=True):
    """The answers of one node and of the nodes that it asked."""

    kind = 0x91
    least_version: ClassVar[int] = 2

    answers: tuple[tuple[AddressText, bytes], ...]
    """By node address."""
    silent: tuple[str, ...]
    rank: Rank

    @property
    def level(self) -> int:
        return self.rank


@attrs.define
class GatheredAnswers:
    answers: dict[str, bytes] = attrs.field(factory=dict)
    silent: list[str] = attrs.field(factory=list)
    rank: int = 0
    differing: list[tuple[str, bytes]] = attrs.field(factory=list)
    """Further answers in the name of a node: one of them is false."""
    _bytes: int = attrs.field(default=0, init=False)

    def add(self, node: str, content: bytes, rank: int) -> None:
        """Add an answer; a node whose answer is too large counts as silent."""
        if self.answers.get(node) == content:
            return
        if len(content) > MOST_ANSWER or self._bytes + len(content) > MOST_ANSWERS:
            self.silent.append(node)
            return
        self._bytes += len(content)
        if self.answers.setdefault(node, content) is not content:
            self.differing.append((node, content))
        self.rank = max(self.rank, rank)

    def add_reply(self, reply: Reply, unit: UnitPath | None) -> int:
        """Add the answers of the asked node, with a unit also those of other nodes there. Return
        the number of answers in other names."""
        false = 0
        for node, content in reply.answers:
            address = address_or_none(node)
            is_inside = unit is not None and address is not None and is_within(address.unit, unit)
            if is_inside or address == reply.source:
                self.add(node, content, reply.rank)
            else:
                false += 1
        self.silent += reply.silent
        return false


class NetworkQuestions:
    """Asks questions, and answers those of other nodes."""

    log = Logger()

    def __init__(
        self,
        messenger: NodeMessenger,
        clock: IClock,
        record_rejected: Callable[[str, ProtocolError], object] = lambda *_: None,
    ) -> None:
        """`record_rejected` gets the name of a node that answers for others."""
        self.messenger = messenger
        self._record_rejected = record_rejected
        self._answerers: dict[str, NodeAnswerer] = {}
        self._requests = NodeRequests(messenger, clock, Reply, MOST_OPEN)
        self._gateways = GatewayRotation(messenger)
        messenger.add_listener(Question, self._receive_question)

    @property
    def own_address(self) -> str:
        """Empty while the node is in no cluster."""
        return "" if self.messenger.own_address is None else str(self.messenger.own_address)

    def register_answerer(self, topic: str, answerer: NodeAnswerer) -> None:
        self._answerers[topic] = answerer

    async def ask_all_nodes(
        self, topic: str, content: bytes, rank: int = 0, *, gateways: int = 1
    ) -> GatheredAnswers:
        """`rank` is the clearance that links need. Each unit is asked over so many gateways: one
        of them may answer in the name of others."""
        if self.messenger.own_address is None or len(content) > MOST_CONTENT:
            return GatheredAnswers()
        targets = self._list_targets((), gateways)
        return await self._gather(topic, content, rank, targets, ANSWER_TIME)

    async def _gather(
        self,
        topic: str,
        content: bytes,
        rank: int,
        targets: Sequence[_Target],
        ms: int,
        *,
        is_for_other: bool = False,
    ) -> GatheredAnswers:
        """Half of the open requests are for questions of this node."""

        def ask(address: Address | None, unit: UnitPath | None) -> Deferred[Reply | None]:
            fields = self._requests.first_fields(address)
            if fields is None or (is_for_other and self._requests.is_half_full):
                return succeed(None)
            question = Question(*fields, topic, content, unit, ms, rank)
            return self._requests.send(question, ms / 1000)

        pending = [ask(*target) for target in targets]
        gathered = GatheredAnswers()
        unanswered: list[str] = []
        answered: set[str] = set()
        for (each, unit), answer in zip(targets, pending, strict=True):
            reply, name = await answer, str(each) if unit is None else unit_text(unit)
            if reply is None:
                unanswered.append(name)
                continue
            answered.add(name)
            false = gathered.add_reply(reply, unit)
            if false:
                self._record_false(reply.source, false)
        gathered.silent += [each for each in unanswered if each not in answered]
        return gathered

    def _record_false(self, sender: Address, count: int) -> None:
        text = f"{count} answers in the name of nodes that it was not asked for"
        self._record_rejected(sender.node, BadSignature(text))

    def _list_targets(self, scope: UnitPath, gateways: int = 1) -> list[_Target]:
        """Return all nodes to ask. Absent and unreachable ones are included, to be listed as
        silent."""
        members = (*self.messenger.list_members(), *self.messenger.list_absent_members())
        return [
            *((each, None) for each in members),
            *self._gateways.choose_gateways(scope, gateways),
        ]

    def _receive_question(self, message: Question) -> None:
        answering = Deferred.fromCoroutine(self._answer(message))
        answering.addErrback(lambda failure: self.log.failure("a question failed", failure))

    async def _answer(self, message: Question) -> None:
        own = self.messenger.own_address
        answerer = self._answerers.get(message.topic)
        if own is None or answerer is None:
            return
        ms = round(_SHARE * min(message.within, ANSWER_TIME))
        others: Deferred[GatheredAnswers] | None = None
        if message.unit is not None and is_within(own.unit, message.unit):
            targets = self._list_targets(message.unit)
            rest = self._gather(
                *(message.topic, message.content, message.rank, targets, ms), is_for_other=True
            )
            others = Deferred.fromCoroutine(rest)
        own_answer: NodeAnswer = await maybeDeferred(answerer, message.content)
        gathered = GatheredAnswers() if others is None else await others
        if own_answer is None:
            gathered.silent.append(str(own))
        else:
            gathered.add(str(own), *own_answer)
        rank = max(gathered.rank, message.rank)
        reply = (tuple(gathered.answers.items()), tuple(gathered.silent), rank)
        self.messenger.send(Reply(message.source, own, MAX_HOPS, message.request, *reply))
