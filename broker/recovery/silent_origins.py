"""Events of an origin that sends nothing any more, from the nodes that have got further with it.

An origin's node sends its events to each node that asks for them. When that node dies, or loses its
disk, others may have got to different places, and nothing brings them level. So a node asks all
others about the origins of which nothing new has come for `recovery.patience`: up to which place
have they got, and does one of them have the origin's log? It reads the difference from the logs and
replicas of those that have got further, and from the archive. It merges the events by their places,
and takes them like pages of the origin's log.

Those nodes have logged only the events that somebody asked for there. So a missing range between
their events is a loss only when the origin's log is at no node: all nodes have answered, and none
has it. Then subscriptions are told a gap. Until then nothing behind a missing range is taken, for
the origin's node may come back, and it has the events.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol

import attrs
import msgpack
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.channel.backoff import backoff_bound
from broker.cluster.address import Address, address_or_none
from broker.cluster.questions import Questions
from broker.errors import BrokerError
from broker.event.place import Mark
from broker.recovery.archive_access import ArchiveAccess
from broker.recovery.branch_sources import BranchSources
from broker.recovery.standing_in import Flows, is_in_log
from broker.recovery.surroundings import Surroundings
from broker.session import fields
from broker.store.records import LoggedEvent

#: Seconds between two looks at which origins are silent.
LOOK_EVERY: Final = 5.0
#: Seconds until the nodes are asked about an origin again, at first and at most.
ASK_AGAIN: Final = 20.0
MOST_ASK_AGAIN: Final = 3600.0
#: Origins in one question; further ones are in the next.
MOST_ORIGINS: Final = 512
#: Nodes whose logs are read at a time; of more, those that have got furthest.
MOST_NODES: Final = 4
#: Events that are taken at a time.
RUN: Final = 256
#: The kind of the question.
REACHED: Final = "reached"
_NOWHERE: Mark = (0, 0)


class SilentFlows(Flows, Protocol):
    """Also how far the nodes have got, and which of them are there."""

    def reached(self, origin: str) -> Mark | None:
        """The furthest place of an origin in the log or the replica here; None: there is none."""

    def is_here(self, origin: str) -> bool:
        """Whether the origin's log is here, or at a node of the cluster that can be reached."""

    def nodes(self) -> Collection[str]:
        """The nodes of the cluster that can be reached, and the clusters beside it."""

    def gone(self, origin: str, after: Mark, upto: Mark) -> None:
        """No node has the events of an origin in (after, upto]."""


@attrs.frozen
class _Asked:
    """When the nodes are asked about one origin again."""

    times: int
    again_at: float


@attrs.define
class _Answers:
    """What all nodes have said."""

    marks: dict[str, dict[Address, Mark]] = attrs.field(factory=dict)
    """By origin, how far which node has got."""
    here: set[str] = attrs.field(factory=set)
    """Origins whose log a node has."""
    complete: bool = True
    """Whether all nodes have answered."""

    def add(self, node: Address, content: bytes) -> None:
        """Add the answer of one node. Raises `ValueError` or `TypeError`."""
        for origin, mark, is_here in msgpack.unpackb(content):
            self.marks.setdefault(fields.text(origin), {})[node] = fields.mark(mark)
            if fields.flag(is_here):
                self.here.add(origin)


class SilentOrigins:
    """Both sides, of one node."""

    log = Logger()

    def __init__(
        self,
        flows: SilentFlows,
        questions: Questions,
        sources: Callable[[str], BranchSources],
        archive: ArchiveAccess | None,
        around: Surroundings,
    ) -> None:
        """`sources` reads the events of one origin."""
        self._flows = flows
        self._questions = questions
        self._sources = sources
        self._archive = archive
        self._around = around
        self._look_at = around.clock.seconds() + LOOK_EVERY
        self._is_looking = False
        self._stands: dict[str, tuple[Mark, float]] = {}
        """By origin, how far this node has got, and since when."""
        self._asked: dict[str, _Asked] = {}
        self._unasked: frozenset[str] = frozenset()
        """Nodes and clusters that did not answer the last question. Such a node may have got
        further, or have the log."""
        self.found = 0
        """Events that were taken."""
        self.lost = 0
        """Places of which subscriptions were told that no node has them."""
        questions.answer_with(REACHED, self._answer)

    # ------------------------------------------------------------------ answering

    def _answer(self, content: bytes) -> tuple[bytes, int] | None:
        try:
            origins = fields.text_list(msgpack.unpackb(content))
        except (ValueError, TypeError):
            return None
        rows: list[tuple[str, Mark, bool]] = []
        for origin in origins[:MOST_ORIGINS]:
            mark = self._flows.reached(origin)
            is_here = self._flows.is_here(origin)
            if mark is not None or is_here:
                rows.append((origin, mark or _NOWHERE, is_here))
        return msgpack.packb(rows), 0

    # ------------------------------------------------------------------ asking

    def look(self) -> None:
        """To be called each second."""
        now = self._around.clock.seconds()
        if self._is_looking or now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY
        if self._flows.idle:
            self._stands.clear()
            return
        due = self._due(now)
        if not due:
            return
        self._is_looking = True
        looking = Deferred.fromCoroutine(self._ask(due))
        looking.addErrback(
            lambda failure: self.log.failure("asking about silent origins failed", failure)
        )
        looking.addBoth(self._looked)

    def _looked(self, _: object) -> None:
        self._is_looking = False

    def _due(self, now: float) -> list[str]:
        """Silent origins about which the nodes are to be asked now."""
        came = not self._unasked.isdisjoint(self._flows.nodes())
        before = self._stands
        self._stands = {
            origin: before[origin] if before.get(origin, (None,))[0] == mark else (mark, now)
            for origin, mark in self._flows.wanted().items()
        }
        patience = self._around.patience
        silent = [origin for origin, (_, at) in self._stands.items() if now - at >= patience]
        self._asked = {o: self._asked[o] for o in silent if o in self._asked}
        due = [
            origin
            for origin in silent
            if came or origin not in self._asked or now >= self._asked[origin].again_at
        ]
        for origin in due[:MOST_ORIGINS]:
            times = self._asked[origin].times + 1 if origin in self._asked else 0
            again_at = now + backoff_bound(times, ASK_AGAIN, MOST_ASK_AGAIN)
            self._asked[origin] = _Asked(times, again_at)
        return due[:MOST_ORIGINS]

    async def _ask(self, origins: Sequence[str]) -> None:
        gathered = await self._questions.ask_others(REACHED, msgpack.packb(origins))
        self._unasked = frozenset(gathered.silent) - frozenset(self._flows.nodes())
        answers = _Answers(complete=not gathered.silent)
        for text, content in gathered.answers.items():
            node = address_or_none(text)
            try:
                if node is None:
                    raise ValueError("no address")
                answers.add(node, content)
            except (ValueError, TypeError) as error:
                answers.complete = False
                self.log.warn("{node} answers badly: {error}", node=text, error=error)
        for origin in origins:
            if origin not in answers.here:
                await self._catch_up(origin, answers.marks.get(origin, {}), answers.complete)

    # ------------------------------------------------------------------ catching up

    async def _catch_up(self, origin: str, marks: Mapping[Address, Mark], complete: bool) -> None:
        """Take the events of an origin up to the furthest of these places."""
        after = self._flows.stands_at(origin)
        if after is None:
            return
        further = [node for node, mark in marks.items() if _is_behind(after, mark)]
        if not further:
            return
        nodes = sorted(further, key=marks.__getitem__, reverse=True)
        upto = marks[nodes[0]]
        # Of those that are left out it is not known what they have.
        complete = complete and len(nodes) <= MOST_NODES
        sources = self._sources(origin)
        pages = [
            of(node, after, upto)
            for node in nodes[:MOST_NODES]
            for of in (sources.logged_at, sources.replica_at)
        ]
        if self._archive is not None:
            told = await self._archive.covered({origin: after})
            complete = complete and told.is_known and origin not in told.healing
            if any(end > after for _, end in told.intervals.get(origin, ())):
                pages.append(sources.archived(after, upto))
        merged = _Merged(pages)
        try:
            await self._take(origin, after, upto, merged, complete)
        finally:
            await merged.close()

    async def _take(
        self, origin: str, after: Mark, upto: Mark, merged: _Merged, complete: bool
    ) -> None:
        run: list[LoggedEvent] = []
        while True:
            event = await merged.next(run[-1].mark if run else after)
            ends = event is None or event.offset != (run[-1].mark if run else after)[1] + 1
            if run and (ends or len(run) >= RUN):
                if not await self._page(origin, after, run):
                    return
                after, run = run[-1].mark, []
            if ends:
                # Of a missing range the end is the place before the next event.
                end = upto if event is None else (event.mark[0], event.offset - 1)
                if _is_behind(after, end):
                    if not (complete and merged.complete):
                        return
                    if not await self._gone(origin, after, end):
                        return
                    after = end
            if event is None:
                return
            run.append(event)

    async def _page(self, origin: str, after: Mark, events: list[LoggedEvent]) -> bool:
        if self._flows.stands_at(origin) != after:
            # It flows again.
            return False
        self._flows.page(origin, after, events[-1].mark, events)
        self.found += len(events)
        return await is_in_log(self._flows, self._around, origin, events[-1].mark)

    async def _gone(self, origin: str, after: Mark, upto: Mark) -> bool:
        if self._flows.stands_at(origin) != after:
            return False
        self.lost += upto[1] - after[1]
        self.log.warn(
            "no node has the events of {origin} behind {after} and up to {upto}",
            origin=origin,
            after=f"{after[0]}:{after[1]}",
            upto=f"{upto[0]}:{upto[1]}",
        )
        self._flows.gone(origin, after, upto)
        return await is_in_log(self._flows, self._around, origin, upto)


def _is_behind(mark: Mark, other: Mark) -> bool:
    """Whether events may lie between two places: an epoch may have begun in which there is none."""
    return mark < other and mark[1] < other[1]


class _Merged:
    """The events of several sources, each in the order of its places."""

    def __init__(self, sources: Sequence[AsyncIterator[Sequence[LoggedEvent]]]) -> None:
        self._sources: dict[Any, list[LoggedEvent]] = {each: [] for each in sources}
        self.complete = True
        """Whether all sources could be read to their end so far."""

    async def next(self, after: Mark) -> LoggedEvent | None:
        """The first event behind a place; None at the end."""
        for source in list(self._sources):
            await self._fill(source, after)
        heads = [events[0] for events in self._sources.values()]
        return min(heads, key=lambda each: each.mark, default=None)

    async def _fill(self, source: Any, after: Mark) -> None:
        """Let the first event of a source be one behind a place."""
        events = self._sources[source]
        while True:
            while events and not _is_behind(after, events[0].mark):
                del events[0]
            if events:
                return
            try:
                events += await anext(source)
            except StopAsyncIteration:
                del self._sources[source]
                return
            except BrokerError:
                self.complete = False
                del self._sources[source]
                return

    async def close(self) -> None:
        """Read no more."""
        for source in self._sources:
            await source.aclose()
