"""Questions to all nodes of the network, and their answers.

A question goes to each node of the asker's cluster, and to one gateway of each unit beside it. A
gateway asks the nodes of its cluster and one gateway of each further unit in the unit that it was
asked for. So every node is asked once, as in `recovery.seeking`. Nodes in between have a share of
the time, so that their answers are not too late. A node that does not answer is named as silent.

Both messages are of version 2 of the protocol: they do not pass neighbours of version 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import attrs
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import Logger

from broker.cluster.address import Address, UnitPath, check_unit, is_within, unit_text
from broker.cluster.messages import MAX_CONTROL, register
from broker.cluster.node_messenger import NodeMessenger
from broker.cluster.traffic.frame import MAX_HOPS
from broker.cluster.traffic.messages import RoutedMessage
from broker.transport.clock import IClock, IDelayed
from broker.wire import fields

#: Ms that all have to answer; those that a gateway asks have `_TIME_SHARE` of its time.
ANSWER_TIME: Final = 3_000
_SHARE: Final = 0.6
#: Bytes of one node's answer; of all answers in one message.
MOST_ANSWER: Final = 64 << 10
MOST_ANSWERS: Final = MAX_CONTROL // 2
#: Bytes of a question's content.
MOST_CONTENT: Final = MAX_CONTROL // 2
#: Questions that a node has open at a time; it answers nothing while there are more.
MOST_OPEN: Final = 1_000
_RANKS: Final = 3

#: What a node answers: content, and the rank that links must be cleared for; None: nothing.
NodeAnswer: TypeAlias = tuple[bytes, int] | None
#: Answers one kind of question, at once or later.
NodeAnswerer: TypeAlias = Callable[[bytes], Any]
_Answers: TypeAlias = tuple[tuple[str, bytes], ...]


def _rank(value: Any) -> int:
    if fields.count(value) >= _RANKS:
        raise ValueError("no rank")
    return int(value)


def _optional_unit(value: Any) -> UnitPath | None:
    return None if value is None else check_unit(fields.text_list(value))


def _answers(value: Any) -> _Answers:
    return tuple((fields.address(node), fields.octets(content)) for node, content in value)


@register(0x90)
@attrs.frozen
class Question(RoutedMessage):
    """Answer this; with a unit, ask all other nodes of that unit, too."""

    least_version: ClassVar[int] = 2

    request: int = attrs.field(converter=fields.count)
    topic: str = attrs.field(converter=fields.text)
    content: bytes = attrs.field(converter=fields.octets, repr=False)
    unit: UnitPath | None = attrs.field(converter=_optional_unit)
    within: int = attrs.field(converter=fields.count)
    """Ms: a later answer is of no use."""
    rank: int = attrs.field(converter=_rank)

    @property
    def level(self) -> int:
        """See `RoutedMessage`."""
        return self.rank


@register(0x91)
@attrs.frozen
class Reply(RoutedMessage):
    """The answers of one node, or of those that it has asked."""

    least_version: ClassVar[int] = 2

    request: int = attrs.field(converter=fields.count)
    answers: _Answers = attrs.field(converter=_answers, repr=False)
    """By the address of the node."""
    silent: tuple[str, ...] = attrs.field(converter=fields.text_list)
    """Nodes, or units, that did not answer."""
    rank: int = attrs.field(converter=_rank)

    @property
    def level(self) -> int:
        """See `RoutedMessage`."""
        return self.rank


@attrs.define
class GatheredAnswers:
    """What has come of a question."""

    answers: dict[str, bytes] = attrs.field(factory=dict)
    silent: list[str] = attrs.field(factory=list)
    rank: int = 0

    def add(self, node: str, content: bytes, rank: int) -> None:
        """Take one node's answer, where there is room for it."""
        taken = sum(map(len, self.answers.values()))
        if len(content) > MOST_ANSWER or taken + len(content) > MOST_ANSWERS:
            self.silent.append(node)
            return
        self.answers[node] = content
        self.rank = max(self.rank, rank)


class NetworkQuestions:
    """Both sides, of one node."""

    log = Logger()

    def __init__(self, messenger: NodeMessenger, clock: IClock) -> None:
        self.messenger = messenger
        self._clock = clock
        self._answerers: dict[str, NodeAnswerer] = {}
        self._open_questions: dict[int, tuple[Deferred[Reply | None], IDelayed]] = {}
        self._round = 0
        messenger.add_listener(Question, self._receive_question)
        messenger.add_listener(Reply, self._receive_reply)

    @property
    def own_address(self) -> str:
        """This node's address; empty while it is in no cluster."""
        return "" if self.messenger.own_address is None else str(self.messenger.own_address)

    def register_answerer(self, topic: str, answerer: NodeAnswerer) -> None:
        """Answer questions of this kind, for other nodes."""
        self._answerers[topic] = answerer

    async def ask_all_nodes(self, topic: str, content: bytes, rank: int = 0) -> GatheredAnswers:
        """The answers of all other nodes; `rank` is what links must be cleared for."""
        if self.messenger.own_address is None or len(content) > MOST_CONTENT:
            return GatheredAnswers()
        targets = [*self._members(), *self._units(())]
        return await self._gather(topic, content, rank, targets, ANSWER_TIME)

    # ------------------------------------------------------------------ asking

    async def _gather(
        self,
        topic: str,
        content: bytes,
        rank: int,
        targets: Sequence[tuple[Address | UnitPath, UnitPath | None]],
        ms: int,
    ) -> GatheredAnswers:
        pending = [self._ask(each, unit, topic, content, rank, ms) for each, unit in targets]
        gathered = GatheredAnswers()
        for (each, unit), answer in zip(targets, pending, strict=True):
            reply = await answer
            if reply is None:
                gathered.silent.append(str(each) if unit is None else unit_text(unit))
                continue
            for node, found in reply.answers:
                gathered.add(node, found, reply.rank)
            gathered.silent += reply.silent
        return gathered

    def _ask(
        self,
        address: Address | UnitPath,
        unit: UnitPath | None,
        topic: str,
        content: bytes,
        rank: int,
        ms: int,
    ) -> Deferred[Reply | None]:
        answer: Deferred[Reply | None] = Deferred()
        own = self.messenger.own_address
        if (
            own is None
            or not isinstance(address, Address)
            or not self.messenger.is_reachable(address)
            or len(self._open_questions) >= MOST_OPEN
        ):
            answer.callback(None)
            return answer
        number = self.messenger.next_request_number()
        timer = self._clock.callLater(ms / 1000, self._settle, number, None)
        self._open_questions[number] = answer, timer
        self.messenger.send(
            Question(address, own, MAX_HOPS, number, topic, content, unit, ms, rank)
        )
        return answer

    def _members(self) -> Sequence[tuple[Address, None]]:
        """The other nodes of the cluster, also those that fell silent: these are to be named."""
        return [
            (each, None)
            for each in (*self.messenger.list_members(), *self.messenger.list_absent_members())
        ]

    def _units(self, scope: UnitPath) -> Sequence[tuple[Address | UnitPath, UnitPath | None]]:
        """One gateway of each unit beside this node's own that lies in `scope`: another one each
        time, since one may be silent. The unit itself where no gateway can be reached."""
        self._round += 1
        found: list[tuple[Address | UnitPath, UnitPath | None]] = []
        for unit, gateways in sorted(self.messenger.gateways_by_unit().items()):
            if is_within(unit, scope):
                reachable = [each for each in gateways if self.messenger.is_reachable(each)]
                found.append((reachable[self._round % len(reachable)] if reachable else unit, unit))
        return found

    def _receive_reply(self, message: Reply) -> None:
        self._settle(message.request, message)

    def _settle(self, number: int, message: Reply | None) -> None:
        answer, timer = self._open_questions.pop(number, (None, None))
        if timer is not None and timer.active():
            timer.cancel()
        if answer is not None:
            answer.callback(message)

    # ------------------------------------------------------------------ answering

    def _receive_question(self, message: Question) -> None:
        answering = Deferred.fromCoroutine(self._answer(message))
        answering.addErrback(lambda failure: self.log.failure("a question failed", failure))

    async def _answer(self, message: Question) -> None:
        own = self.messenger.own_address
        answerer = self._answerers.get(message.topic)
        if own is None or answerer is None or len(self._open_questions) >= MOST_OPEN:
            return
        ms = round(_SHARE * message.within)
        others: Deferred[GatheredAnswers] | None = None
        if message.unit is not None and is_within(own.unit, message.unit):
            targets = [*self._members(), *self._units(message.unit)]
            rest = self._gather(message.topic, message.content, message.rank, targets, ms)
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
