"""Events of an origin in other nodes' logs and replicas, while its own log is out of reach.

A survey asks all nodes for their last place of the origin (`docs/protocols/questions.md`). Each
node logged only the events that its own subscriptions needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import attrs
from twisted.logger import Logger

from broker.cluster.address import Address, address_or_none
from broker.cluster.gateway_rotation import MOST_GATEWAYS
from broker.cluster.network_question import NetworkQuestions
from broker.errors import BrokerError, ProtocolError
from broker.event.place import Mark
from broker.log.history import MAX_EPOCH
from broker.recovery.origin_reader import OriginReader
from broker.recovery.page_merge import EventPages, close_pages
from broker.wire.codec import Address as AddressText
from broker.wire.codec import Schema, WireMark, pack

REACHED: Final = "reached"
#: Bound of a question, and of an answer.
MAX_ORIGINS: Final = 512
MAX_NODES: Final = 32
_BEFORE_FIRST: Mark = (0, 0)
_QUESTION: Final = Schema[tuple[str, ...] | None](tuple[str, ...] | None, "question for origins")
#: By origin the last place, whether its log is here, and the nodes that sent its events.
_Answer: TypeAlias = tuple[tuple[str, WireMark, bool, tuple[AddressText, ...]], ...]
_ANSWER: Final = Schema[_Answer](_Answer, "answer of origins")


class KnownOrigins(Protocol):
    def list_origins(self) -> Collection[str]:
        """Return this node's origin and those in its log or replicas."""

    def furthest_place(self, origin: str) -> Mark | None:
        """Return the last place in the log or the replica here."""

    def is_log_reachable(self, origin: str) -> bool:
        """True if the log is here, or at a reachable node of the cluster."""

    def sender_addresses(self, origin: str) -> Sequence[str]:
        """Return the nodes that have sent an origin's events: its own, and others in its place."""


@attrs.define
class LogSurvey:
    """Other nodes' progress in origins."""

    marks: dict[str, dict[Address, Mark]] = attrs.field(factory=dict)
    """By origin and node, its last place."""
    available_logs: set[str] = attrs.field(factory=set)
    senders: dict[str, set[str]] = attrs.field(factory=dict)
    answered: set[str] = attrs.field(factory=set)
    unanswered: Collection[str] = ()
    is_complete: bool = True
    """True if all nodes have answered, and all pages have come."""

    def add_answer(self, node: Address, content: bytes) -> None:
        """Raises `ProtocolError`."""
        for origin, mark, is_here, senders in _ANSWER.decode(content):
            marks = self.marks.setdefault(origin, {})
            marks[node] = max(mark, marks.get(node, mark))
            self.senders.setdefault(origin, set()).update(senders)
            if is_here:
                self.available_logs.add(origin)
        self.answered.add(str(node))

    def is_log_lost(self, origin: str) -> bool:
        is_known = self.is_complete and self.has_asked_senders(origin)
        return is_known and origin not in self.available_logs

    def has_asked_senders(self, origin: str) -> bool:
        return self.senders.get(origin, set()) <= self.answered

    def furthest_place(self, origin: str) -> Mark:
        marks = self.marks.get(origin, {}).values()
        return max((each for each in marks if each[0] <= MAX_EPOCH), default=_BEFORE_FIRST)


class RemoteLogs:
    log = Logger()

    def __init__(
        self,
        known_origins: KnownOrigins,
        questions: NetworkQuestions,
        make_reader: Callable[[str], OriginReader],
    ) -> None:
        self._known_origins = known_origins
        self._questions = questions
        self._origin_reader = make_reader
        questions.register_answerer(REACHED, self._answer)

    def _answer(self, content: bytes) -> tuple[bytes, int] | None:
        known = self._known_origins
        try:
            origins = _QUESTION.decode(content)
        except ProtocolError:
            return None
        if origins is None:
            # Names begin with a time: the oldest logs elsewhere are left out.
            order = sorted(known.list_origins(), reverse=True)
            origins = tuple(sorted(order, key=known.is_log_reachable, reverse=True))
        rows: list[tuple[str, Mark, bool, Sequence[str]]] = []
        for origin in origins[:MAX_ORIGINS]:
            mark, is_here = known.furthest_place(origin), known.is_log_reachable(origin)
            if mark is not None or is_here:
                rows.append(
                    (origin, mark or _BEFORE_FIRST, is_here, known.sender_addresses(origin))
                )
        return pack(rows), 0

    async def survey_origins(self, origins: Sequence[str] | None) -> LogSurvey:
        """Ask all nodes about these origins; None: about all that they know."""
        content = None if origins is None else origins[:MAX_ORIGINS]
        gathered = await self._questions.ask_all_nodes(
            REACHED, pack(content), gateways=MOST_GATEWAYS
        )
        survey = LogSurvey(unanswered=gathered.silent, is_complete=not gathered.silent)
        survey.answered.add(self._questions.own_address)
        survey.senders = {
            origin: {*self._known_origins.sender_addresses(origin)} for origin in origins or ()
        }
        # Of different answers for a node the one counts that has more.
        for text, answer in (*gathered.answers.items(), *gathered.differing):
            node = address_or_none(text)
            try:
                if node is None:
                    raise ProtocolError("no address")
                survey.add_answer(node, answer)
            except ProtocolError as error:
                survey.is_complete = False
                self.log.warn("malformed answer of {node}: {error}", node=text, error=error)
        return survey

    def read_pages(
        self, origin: str, after: Mark, upto: Mark, survey: LogSurvey
    ) -> list[EventPages]:
        """Return readers of (`after`, `upto`] for nodes further than `after`.

        A node that can not be read makes the survey incomplete.
        """
        marks: Mapping[Address, Mark] = survey.marks.get(origin, {})
        further = [node for node, mark in marks.items() if mark > after]
        nodes = sorted(further, key=marks.__getitem__, reverse=True)
        make_reader = self._origin_reader(origin)
        return [
            self._stop_at_error(read(node, after, upto), survey)
            for node in nodes[:MAX_NODES]
            for read in (make_reader.read_log, make_reader.read_replica)
        ]

    def read_archive(self, origin: str, after: Mark, upto: Mark, survey: LogSurvey) -> EventPages:
        return self._stop_at_error(self._origin_reader(origin).read_archive(after, upto), survey)

    async def _stop_at_error(self, pages: EventPages, survey: LogSurvey) -> EventPages:
        try:
            async for events in pages:
                yield events
        except BrokerError as error:
            survey.is_complete = False
            self.log.info("a log of an origin can not be read: {error}", error=error)
        finally:
            await close_pages(pages)
