"""One recovery: what a subscription missed, from one source after the other (P11, X6).

What a source brings comes in each origin's order, so whoever breaks off goes on behind what he got;
and what is left for the next source lies behind it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.archive.intervals import Interval, Intervals, forks, without
from broker.delivery.recovery import Lost, Missed
from broker.errors import BrokerError
from broker.event.place import Mark
from broker.log.records import LoggedEvent
from broker.recovery.archive_source import MOST_LAST, FromArchive
from broker.recovery.context import LOOK_AGAIN, Surroundings
from broker.recovery.log_source import FromLogs
from broker.recovery.lost_branch_reader import LostBranches
from broker.recovery.page_merge import is_behind
from broker.recovery.planner import OWN_LOG, Remaining, Step, plan
from broker.replay.engine.contract import Hole

#: The stage in which nodes are waited for that can not be reached.
CUT_OFF = "cut off"


class Filling:
    """See `broker.delivery.recovery.Recovering`."""

    log = Logger()

    def __init__(
        self,
        missed: Missed,
        around: Surroundings,
        busy: int = 0,
        ended: Callable[[Filling], object] = lambda _: None,
    ) -> None:
        """`busy` is how many others are under way; `ended` is told once that this one is over."""
        self._ended = ended
        self._missed = missed
        self._around = around
        left = self._left = Remaining(missed.ranges, missed.known)
        self._logs = FromLogs(missed, around, left)
        self._archive = (
            None if around.archive is None else FromArchive(missed, around, around.archive, left)
        )
        self._events = self._all()
        self._next: Sequence[LoggedEvent] = ()
        """Events that follow a loss; `more` returns them next."""
        self._lost_before: list[Lost] = []
        self._told: dict[str, list[Interval]] = {}
        """Losses that were returned by `lost_before`."""
        self._error: BrokerError | None = None
        """Why the archive could not be searched."""
        self._cancelled = False
        self._sources = around.sources(missed, busy)
        self._whole = missed.others
        """Whether there may be origins that are wanted and not named."""
        self.steps = plan(missed.ranges, self._sources, whole=missed.others)
        self.stage = ""
        """The source that is being asked."""
        self.has_failed = False
        """Whether it could not go on: its client was told why, and may ask again."""
        self.sent = 0
        self.found: Counter[str] = Counter()
        """Events that were found so far, by source."""

    def more(self) -> Deferred[Sequence[LoggedEvent]]:
        """The next events; none at the end. Fails where the archive could not be searched for what
        no log has."""
        return Deferred.fromCoroutine(self._more())

    async def _more(self) -> Sequence[LoggedEvent]:
        if self._cancelled:
            return []
        if not self._next:
            async for events in self._events:
                if events:
                    self._next = events
                    break
        if self._next:
            events, self._next = self._up_to_loss(self._next)
            self.sent += len(events)
            return events
        if self._error is not None and (self._left.ranges or self._missed.others):
            # What is left is not lost: the archive, which may have it, could not be searched.
            self.has_failed = True
            self._ended(self)
            raise self._error
        self._ended(self)
        return []

    def _up_to_loss(
        self, events: Sequence[LoggedEvent]
    ) -> tuple[Sequence[LoggedEvent], Sequence[LoggedEvent]]:
        """Split events at the first one that follows a loss. Losses before all of them are noted.

        A gap must come before the events behind it (guarantee 6), and a client's position must not
        pass it before.
        """
        self._lost_before = []
        untold = self._untold(self._holes())
        for index, event in enumerate(events) if untold else ():
            passed = [each for each in untold.get(event.origin, ()) if each[1] < event.mark]
            if passed and index:
                return events[:index], events[index:]
            if passed:
                self._told.setdefault(event.origin, []).extend(passed)
                self._lost_before += self._as_lost(event.origin, passed)
                untold = self._untold(self._holes())
        return events, ()

    def lost_before(self) -> Sequence[Lost]:
        """Losses before the events that `more` returned last."""
        return self._lost_before

    def reached(self) -> Mapping[str, Mark]:
        """At the end: how far those of the ranges went that had no end."""
        beyond = {} if self._archive is None else self._archive.beyond
        return {**self._left.open_ends, **beyond}

    def lost(self) -> Sequence[Lost]:
        """At the end: what no source had, and `lost_before` did not return."""
        lost = self._untold([*self._holes(), *self._rest()])
        return [each for origin, found in lost.items() for each in self._as_lost(origin, found)]

    @property
    def lost_places(self) -> int:
        """At the end: the number of places that no source had."""
        lost = [each for found in self._told.values() for each in found]
        lost += [(each.after, each.upto) for each in self.lost()]
        return sum(upto[1] - after[1] for after, upto in lost)

    def _rest(self) -> list[Hole]:
        return [
            (origin, after, upto)
            for origin, (after, upto) in self._left.ranges.items()
            # An epoch may have begun in which there is nothing.
            if upto is not None and upto[1] > after[1]
        ]

    def _holes(self) -> list[Hole]:
        """Ranges that sources reported as missing, before events that they have."""
        archived = [] if self._archive is None else self._archive.holes
        return [*archived, *self._logs.holes]

    def _untold(self, holes: Sequence[Hole]) -> dict[str, Intervals]:
        found: dict[str, list[Interval]] = {}
        for origin, after, upto in holes:
            found.setdefault(origin, []).append((self._lacks_behind(origin, after, upto), upto))
        told = self._told
        return {origin: without(each, told.get(origin, ())) for origin, each in found.items()}

    def _lacks_behind(self, origin: str, after: Mark, upto: Mark) -> Mark:
        """Behind which mark a client lacks what is missing in (`after`, `upto`]."""
        had = self._missed.position.get(origin, after)
        if had <= after or upto <= had:
            return max(had, after)
        # Its place lies on a lost branch. The origin has logged anew behind the branch place, with
        # which the range begins.
        branch, _ = self._missed.ranges.get(origin, (had, None))
        return upto[0], branch[1]

    def _as_lost(self, origin: str, intervals: Iterable[Interval]) -> list[Lost]:
        return [Lost(origin, *each, self._missed.lack) for each in intervals]

    @property
    def client_id(self) -> str:
        """For whom it is."""
        return self._missed.client_id

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody wants the rest."""
        return self._cancelled

    def told(self) -> dict[str, Any]:
        """How far it is, for people."""
        looked_at, of = (0, 0) if self._archive is None else self._archive.looked_at
        return {
            "subscription": self._missed.number,
            "durable": self._missed.name,
            "sources": [step.source for step in self.steps],
            "stage": self.stage,
            "events": self.sent,
            "found": dict(self.found),
            "looked_at": looked_at,
            "of": of,
        }

    def cancel(self) -> None:
        """Nobody wants the rest."""
        self._cancelled = True
        self._logs.cancel()
        if self._archive is not None:
            self._archive.cancel()
        self._ended(self)

    # ------------------------------------------------------------------ sources

    async def _all(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        if not self._missed.last:
            async for events in self._with_lost_branches():
                yield events
            return
        newest: deque[LoggedEvent] = deque(maxlen=min(self._missed.last, MOST_LAST))
        async for events in self._steps():
            newest.extend(events)
        yield list(newest)

    async def _with_lost_branches(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        """Events of branches that their origins have lost come where their places lie."""
        lost = {
            origin: LostBranches(self._logs, origin, branches)
            for origin, branches in self._missed.lost_branches.items()
        }
        had = self._missed.position
        async for found in self._steps():
            events = [e for e in found if e.mark > had.get(e.origin, (0, 0))] if had else found
            begun = 0
            for index, event in enumerate(events) if lost else ():
                if (of_origin := lost.get(event.origin)) is None:
                    continue
                while lost_before := await of_origin.before(event.mark):
                    yield events[begun:index]
                    yield lost_before
                    begun = index
            yield events[begun:]
        for of_origin in lost.values():
            while rest := await of_origin.before(None):
                yield rest

    async def _steps(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        until = self._around.clock.seconds() + self._around.patience
        await self._look_into_archive()
        for step in self.steps:
            if self._cancelled or not (self._left.ranges or self._whole):
                return
            self.stage = step.source
            async for events in self._from(step):
                self.found[self.stage] += len(events)
                yield events
        if self._error is None:
            # What has no end ends where its sources did, or where something is known to be.
            self._left.close()
            await self._look_elsewhere()
        async for events in self._from_cut_off(until):
            self.found["logs"] += len(events)
            yield events
        if self._error is None and not self._cancelled:
            for last_resort in (self._logs.ends(), self._logs.scraps()):
                async for events in last_resort:
                    self.found["logs"] += len(events)
                    yield events
        self.stage = ""

    async def _look_into_archive(self) -> None:
        """Ask logs first where the archive has of no origin that is not named: it need not be
        searched then, unless they lack something.

        Search it first where it has several branches of another origin. A log or a replica of one
        branch does not say what there was on others.
        """
        ranges, archive = self._missed.ranges, self._around.archive
        epochs = {after[0] == upto[0] for after, upto in ranges.values() if upto is not None}
        if archive is None or not (self._whole or False in epochs):
            return
        told = await archive.covered({o: after for o, (after, _) in ranges.items()})
        if self._whole and told.is_known and not told.others:
            self._whole = False
            self.steps = plan(ranges, self._sources)
        own = self._around.origin
        if any(forks(each) for origin, each in told.intervals.items() if origin != own):
            self.steps = plan(ranges, self._sources, whole=True)

    async def _look_elsewhere(self) -> None:
        """Add what other nodes know of origins that are not known here: the log of one may be lost
        before all of it was archived. Unless all nodes say that it is, its node is waited for."""
        others, archive = self._around.others, self._archive
        if others is None or archive is None or not self._missed.others:
            return
        answers = await others.reached(None)
        for origin in answers.marks.keys() - self._missed.ranges.keys() - answers.here:
            after, upto = archive.unnamed.get(origin, (0, 0)), answers.furthest(origin)
            if is_behind(after, upto):
                self._left.add(origin, after, upto)
                if answers.log_is_gone(origin):
                    self._logs.has_no_log(origin)

    async def _from(self, step: Step) -> AsyncIterator[Sequence[LoggedEvent]]:
        try:
            if step.source == "former":
                events = self._logs.former()
            elif step.source == "archive":
                assert self._archive is not None
                events = self._archive.events()
            elif step.source == OWN_LOG:
                events = self._logs.own()
            else:
                follows = self.steps[-1].source == "archive"
                events = self._logs.origins(archive_follows=follows)
            async for each in events:
                yield each
        except BrokerError as error:
            if step.source == "archive":
                self._error = error
            self.log.warn(
                "recovering from {source} ended early: {error}", source=step.source, error=error
            )

    async def _from_cut_off(self, until: float) -> AsyncIterator[Sequence[LoggedEvent]]:
        """What nobody else has may come of nodes that can not be reached, for a moment."""
        around = self._around
        while not self._cancelled and around.clock.seconds() < until:
            cut_off = self._logs.cut_off()
            if not cut_off or around.fetching is None:
                return
            self.stage = CUT_OFF
            await around.after(LOOK_AGAIN)
            if any(around.homes(origin) for origin in cut_off):
                async for events in self._logs.origins(archive_follows=False):
                    yield events
