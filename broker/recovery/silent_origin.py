"""Events of an origin that sends nothing any more, from the nodes that have got further with it.

An origin's node sends its events to each node that asks for them. When that node dies, or loses its
disk, others may have got to different places, and nothing brings them level. So a node asks all
others about the origins of which nothing new has come for `recovery.patience`. It reads the
difference from the logs and replicas of those that have got further, and from the archive. It
merges the events by their places, and takes them like pages of the origin's log.

Those nodes have logged only the events that somebody asked for there. So a missing range between
their events is a loss only when the origin's log is at no node: all nodes have answered, that of
the origin among them, and none has it. Then subscriptions are told a gap. Until then nothing behind
a missing range is taken, for the origin's node may come back, and it has the events. One that does
not come within a day is not waited for.
"""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Sequence
from typing import Any, Final, Protocol

import attrs
from twisted.logger import Logger

from broker.cluster.known_peers import REMEMBERED
from broker.event.place import Mark
from broker.log.records import LoggedEvent
from broker.recovery.archive_access import ArchiveAccess
from broker.recovery.archive_catch_up import Flows, is_in_log
from broker.recovery.context import Surroundings
from broker.recovery.page_merge import MergedPages, is_behind
from broker.recovery.periodic_job import RegularJob
from broker.recovery.remote_logs import MOST_ORIGINS, Answers, OtherLogs
from broker.transport.backoff import backoff_bound

#: Seconds between two looks at which origins are silent.
LOOK_EVERY: Final = 5.0
#: Seconds until the nodes are asked about an origin again, at first and at most.
ASK_AGAIN: Final = 20.0
MOST_ASK_AGAIN: Final = 3600.0
#: Events that are taken at a time.
RUN: Final = 256


class SilentFlows(Flows, Protocol):
    """Also which nodes are there, and what no node has."""

    def nodes(self) -> Collection[str]:
        """The nodes of the cluster that can be reached, and the clusters beside it."""

    def gone(self, origin: str, after: Mark, upto: Mark) -> None:
        """No node has the events of an origin in (after, upto]."""


@attrs.frozen
class _Asked:
    """When the nodes are asked about one origin again."""

    times: int
    again_at: float


class SilentOrigins:
    """One node's."""

    log = Logger()

    def __init__(
        self,
        flows: SilentFlows,
        others: OtherLogs,
        archive: ArchiveAccess | None,
        around: Surroundings,
    ) -> None:
        self._flows = flows
        self._others = others
        self._archive = archive
        self._around = around
        self._job = RegularJob(around.clock, LOOK_EVERY, self._begin)
        self._stands: dict[str, tuple[Mark, float]] = {}
        """By origin, how far this node has got, and since when."""
        self._asked: dict[str, _Asked] = {}
        self._unanswered: frozenset[str] = frozenset()
        """Nodes and clusters that did not answer the last question. Such a node may have got
        further, or have the log."""
        self.found = 0
        """Events that were taken."""
        self.lost = 0
        """Places of which subscriptions were told that no node has them."""

    # ------------------------------------------------------------------ asking

    def look(self) -> None:
        """To be called each second: once in a while it looks."""
        self._job.look()

    def _begin(self) -> Coroutine[Any, Any, None] | None:
        if self._flows.idle:
            self._stands.clear()
            return None
        due = self._due()
        return self._ask(due) if due else None

    def _due(self) -> list[str]:
        """Silent origins about which the nodes are to be asked now."""
        now = self._around.clock.seconds()
        came = not self._unanswered.isdisjoint(self._flows.nodes())
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
        answers = await self._others.reached(origins)
        self._unanswered = frozenset(answers.silent) - frozenset(self._flows.nodes())
        for origin in origins:
            if origin not in answers.here:
                await self._catch_up(origin, answers)

    # ------------------------------------------------------------------ catching up

    async def _catch_up(self, origin: str, answers: Answers) -> None:
        """Take the events of an origin up to the furthest place of other nodes."""
        after, upto = self._flows.stands_at(origin), answers.furthest(origin)
        if after is None or upto <= after:
            return
        answers = attrs.evolve(answers)
        if not answers.has_origin_node(origin) and not self._is_forgotten(origin):
            answers.is_complete = False
        pages = self._others.pages(origin, after, upto, answers)
        if self._archive is not None:
            told = await self._archive.covered({origin: after})
            if not told.is_known or origin in told.healing:
                answers.is_complete = False
            if any(end > after for _, end in told.intervals.get(origin, ())):
                pages.append(self._others.archived(origin, after, upto, answers))
        merged = MergedPages(pages)
        try:
            await self._take(origin, after, upto, merged, answers)
        finally:
            await merged.close()

    def _is_forgotten(self, origin: str) -> bool:
        """Whether nothing new has come of an origin for so long that its node is not waited for."""
        _, since = self._stands.get(origin, (None, float("inf")))
        return self._around.clock.seconds() - since >= REMEMBERED

    async def _take(
        self, origin: str, after: Mark, upto: Mark, merged: MergedPages, answers: Answers
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
                if is_behind(after, end):
                    if not answers.is_complete or not await self._gone(origin, after, end):
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
