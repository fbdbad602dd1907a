"""Events of an origin in the logs and replicas of other nodes, where its own log is out of reach.

A node asks all others up to which place of the origin they have got, and whether one of them has
its log. Then it reads pages of those that have got further. Each node has logged only the events
that its own subscriptions asked for, so each may have other events.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

import attrs
import msgpack
from twisted.logger import Logger

from broker.cluster.address import Address, address_or_none
from broker.cluster.network_question import Questions
from broker.errors import BrokerError
from broker.event.place import Mark
from broker.recovery.origin_reader import OriginSources
from broker.recovery.page_merge import Pages
from broker.wire import fields

#: The kind of the question.
REACHED: Final = "reached"
#: Origins in one question, or in the answer to one that names none.
MOST_ORIGINS: Final = 512
#: Nodes whose logs are read; of more, those that have got furthest.
MOST_NODES: Final = 32
_NOWHERE: Mark = (0, 0)


class KnownOrigins(Protocol):
    """The origins that this node knows."""

    def all(self) -> Collection[str]:
        """Those of which something is in the log or the replicas here, and this node's own."""

    def reached(self, origin: str) -> Mark | None:
        """The furthest place of an origin in the log or the replica here; None: there is none."""

    def is_here(self, origin: str) -> bool:
        """Whether the origin's log is here, or at a node of the cluster that can be reached."""

    def homes(self, origin: str) -> Sequence[str]:
        """The addresses of the nodes that have sent events of an origin since this one began: its
        own node, and who answered in its place."""


@attrs.define
class Answers:
    """What other nodes have said, and whether all could be read."""

    marks: dict[str, dict[Address, Mark]] = attrs.field(factory=dict)
    """By origin, how far which node has got."""
    here: set[str] = attrs.field(factory=set)
    """Origins whose log a node has."""
    homes: dict[str, set[str]] = attrs.field(factory=dict)
    """By origin the addresses of the nodes that have sent its events."""
    answered: set[str] = attrs.field(factory=set)
    """The addresses of the nodes that have answered, and of the one that has asked."""
    silent: Collection[str] = ()
    """Nodes and clusters that did not answer."""
    is_complete: bool = True
    """Whether all nodes have answered, and all pages that were asked for have come so far."""

    def add(self, node: Address, content: bytes) -> None:
        """Add the answer of one node. Raises `ValueError` or `TypeError`."""
        for origin, mark, is_here, homes in msgpack.unpackb(content):
            self.marks.setdefault(fields.text(origin), {})[node] = fields.mark(mark)
            self.homes.setdefault(origin, set()).update(map(fields.address, homes))
            if fields.flag(is_here):
                self.here.add(origin)
        self.answered.add(str(node))

    def log_is_gone(self, origin: str) -> bool:
        """Whether the log of an origin is at no node, for certain."""
        known = self.is_complete and self.has_origin_node(origin)
        return known and origin not in self.here

    def has_origin_node(self, origin: str) -> bool:
        """Whether all nodes that have sent events of an origin, as far as is known, are among those
        that have answered."""
        return self.homes.get(origin, set()) <= self.answered

    def furthest(self, origin: str) -> Mark:
        """The furthest place that a node has got to."""
        return max(self.marks.get(origin, {}).values(), default=_NOWHERE)


class OtherLogs:
    """Asks other nodes, and answers them."""

    log = Logger()

    def __init__(
        self,
        known: KnownOrigins,
        questions: Questions,
        sources: Callable[[str], OriginSources],
    ) -> None:
        """`sources` reads the events of one origin."""
        self._known = known
        self._questions = questions
        self._sources = sources
        questions.answer_with(REACHED, self._answer)

    def _answer(self, content: bytes) -> tuple[bytes, int] | None:
        known = self._known
        try:
            asked = msgpack.unpackb(content)
            origins = None if asked is None else fields.text_list(asked)
        except (ValueError, TypeError):
            return None
        if origins is None:
            # Their names begin with the time: of logs that are not here the oldest are left out.
            order = sorted(known.all(), reverse=True)
            origins = tuple(sorted(order, key=known.is_here, reverse=True))
        rows: list[tuple[str, Mark, bool, Sequence[str]]] = []
        for origin in origins[:MOST_ORIGINS]:
            mark, is_here = known.reached(origin), known.is_here(origin)
            if mark is not None or is_here:
                rows.append((origin, mark or _NOWHERE, is_here, known.homes(origin)))
        return msgpack.packb(rows), 0

    async def reached(self, origins: Sequence[str] | None) -> Answers:
        """How far other nodes have got with these origins; None: with all that they know."""
        content = None if origins is None else list(origins[:MOST_ORIGINS])
        gathered = await self._questions.ask_others(REACHED, msgpack.packb(content))
        answers = Answers(silent=gathered.silent, is_complete=not gathered.silent)
        answers.answered.add(self._questions.own)
        answers.homes = {origin: {*self._known.homes(origin)} for origin in origins or ()}
        for text, answer in gathered.answers.items():
            node = address_or_none(text)
            try:
                if node is None:
                    raise ValueError("no address")
                answers.add(node, answer)
            except (ValueError, TypeError) as error:
                answers.is_complete = False
                self.log.warn("{node} answers badly: {error}", node=text, error=error)
        return answers

    def pages(self, origin: str, after: Mark, upto: Mark, answers: Answers) -> list[Pages]:
        """The events of an origin in (`after`, `upto`] in the logs and the replicas of those that
        have got further than `after`. A node that can not be read makes the answers incomplete."""
        marks: Mapping[Address, Mark] = answers.marks.get(origin, {})
        further = [node for node, mark in marks.items() if mark > after]
        nodes = sorted(further, key=marks.__getitem__, reverse=True)
        sources = self._sources(origin)
        return [
            self._until_broken(read(node, after, upto), answers)
            for node in nodes[:MOST_NODES]
            for read in (sources.logged_at, sources.replica_at)
        ]

    def archived(self, origin: str, after: Mark, upto: Mark, answers: Answers) -> Pages:
        """The events of an origin in the archive."""
        return self._until_broken(self._sources(origin).archived(after, upto), answers)

    async def _until_broken(self, pages: Pages, answers: Answers) -> Pages:
        try:
            async for events in pages:
                yield events
        except BrokerError as error:
            answers.is_complete = False
            self.log.info("a log of an origin can not be read: {error}", error=error)
        finally:
            await pages.aclose()
