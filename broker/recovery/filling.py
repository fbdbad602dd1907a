"""One recovery: what a subscription missed, from one source after the other (P11, X6).

What a source brings comes in each origin's order, so whoever breaks off goes on behind what he got;
and what is left for the next source lies behind it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.cluster.address import Address
from broker.errors import BrokerError, Closed, NotConnected
from broker.event.place import Mark
from broker.recovery.archive_access import ArchiveAccess, Replay
from broker.recovery.log_merging import in_order
from broker.recovery.log_pages import Page, PageRequest
from broker.recovery.planning import OWN_LOG, Remaining, Step, holes, plan
from broker.recovery.request import ReplayRequest
from broker.recovery.surroundings import Surroundings
from broker.router.recovery import Lost, MarkRange, Missed
from broker.store.archive.intervals import Interval
from broker.store.archive.intervals import merged as merged_intervals
from broker.store.records import LoggedEvent

#: Seconds between looks whether the archive has got far enough.
LOOK_AGAIN = 0.5
#: Events that are given at a time of those that were gathered.
RUN = 256
#: How often a replay is begun whose process ends.
ATTEMPTS = 3
#: Most events that `last` may ask for: they are held until the end is known.
MOST_LAST = 100_000


class Filling:
    """See `broker.router.recovery.Recovering`."""

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
        self._left = Remaining(missed.ranges)
        # With `others` the archive must be told what is not wanted any more of an origin.
        self._had: dict[str, MarkRange] = {
            origin: (upto, upto) for origin, (_, upto) in missed.ranges.items() if upto is not None
        }
        self._events = self._all()
        self._replay: Replay | None = None
        self._holes: list[tuple[str, Mark, Mark]] = []
        self._beyond: dict[str, Mark] = {}
        """By origin how far the archive went, where what is known here is no end."""
        self._cancelled = False
        self.steps = plan(missed.ranges, around.sources(missed, busy), whole=missed.others)
        self.stage = ""
        """The source that is being asked."""
        self.sent = 0
        self.found: Counter[str] = Counter()
        """Events that were found so far, by source."""

    def more(self) -> Deferred[Sequence[LoggedEvent]]:
        """The next events; none at the end."""
        return Deferred.fromCoroutine(self._more())

    async def _more(self) -> Sequence[LoggedEvent]:
        if self._cancelled:
            return []
        async for events in self._events:
            if events:
                self.sent += len(events)
                return events
        self._ended(self)
        return []

    def reached(self) -> Mapping[str, Mark]:
        """At the end: how far those of the ranges went that had no end."""
        return {**self._left.open_ends, **self._beyond}

    def lost(self) -> Sequence[Lost]:
        """At the end: what no source had."""
        left = [
            (origin, after, upto)
            for origin, (after, upto) in self._left.ranges.items()
            # An epoch may have begun in which there is nothing.
            if upto is not None and upto[1] > after[1]
        ]
        known = self._missed.known
        left += [
            (origin, after, known[origin])
            for origin, after in self._left.open_ends.items()
            if origin in known and known[origin][1] > after[1]
        ]
        lost: dict[str, list[Interval]] = {}
        for origin, after, upto in (*self._holes, *left):
            lost.setdefault(origin, []).append((after, upto))
        lack = self._missed.lack
        return [
            Lost(o, *each, lack) for o, found in lost.items() for each in merged_intervals(found)
        ]

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
        looked_at, of = (0, 0) if self._replay is None else self._replay.looked_at
        return {
            "subscription": self._missed.number,
            "durable": self._missed.name,
            "sources": [step.source for step in self.steps] or [OWN_LOG],
            "stage": self.stage,
            "events": self.sent,
            "found": dict(self.found),
            "looked_at": looked_at,
            "of": of,
        }

    def cancel(self) -> None:
        """Nobody wants the rest."""
        self._cancelled = True
        if self._replay is not None:
            self._replay.cancel()
        self._ended(self)

    # ------------------------------------------------------------------ sources

    async def _all(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        if not self._missed.last:
            async for events in self._steps():
                yield events
            return
        newest: deque[LoggedEvent] = deque(maxlen=min(self._missed.last, MOST_LAST))
        async for events in self._steps():
            newest.extend(events)
        yield list(newest)

    async def _steps(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        if not self.steps:
            # Whatever this node has is all that there is to be had.
            self.stage = OWN_LOG
            async for events in self._from_own_log():
                self.found[self.stage] += len(events)
                yield events
        for step in self.steps:
            if self._cancelled or not (self._left.ranges or self._missed.others):
                return
            self.stage = step.source
            async for events in self._from(step):
                self.found[self.stage] += len(events)
                yield events
        self.stage = ""

    async def _from(self, step: Step) -> AsyncIterator[Sequence[LoggedEvent]]:
        try:
            if step.source == "former":
                async for events in self._from_former():
                    yield events
            elif step.source == "archive":
                async for events in self._from_archive():
                    yield events
            else:
                async for events in self._from_logs():
                    yield events
        except BrokerError as error:
            self.log.warn(
                "recovering from {source} ended early: {error}", source=step.source, error=error
            )

    async def _from_former(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        address = Address.parse(self._missed.former)
        request = self._request(self._left.ranges)
        request = attrs.evolve(request, client_id=self._missed.client_id, name=self._missed.name)
        async for page in self._pages(address, request):
            yield page.events

    async def _from_logs(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        """Events of several origins' logs. All are gathered first, for only then it is known whose
        publishers have been at several of them; they are few."""
        ranges = self._left.ranges
        if len(ranges) == 1:
            for origin, each in ranges.items():
                async for page in self._log_of(origin, each):
                    yield page.events
            return
        before = self._left.copy()
        gathered: dict[str, list[LoggedEvent]] = {}
        for origin, each in ranges.items():
            events = gathered[origin] = []
            async for page in self._log_of(origin, each):
                events += page.events
        if self._left.ranges and self.steps[-1].source == "archive":
            # What an origin's log lacks may be what a publisher sent before it went on to another:
            # the archive, which is asked next, has all of them in their order.
            self._left = before
            return
        merged = in_order(gathered)
        while run := list(islice(merged, RUN)):
            yield run

    async def _log_of(self, origin: str, wanted: MarkRange) -> AsyncIterator[Page]:
        request = self._request({origin: wanted})
        own = self._around.origin == origin
        whom: list[Address | None] = [None] if own else [*self._around.homes(origin)]
        for address in whom:
            left = self._left.ranges.get(origin)
            if left is None:
                return
            try:
                async for page in self._pages(
                    address, attrs.evolve(request, ranges={origin: left})
                ):
                    yield page
            except BrokerError as error:
                self.log.info(
                    "{whom} sends nothing of {origin}: {error}",
                    whom=address,
                    origin=origin,
                    error=error,
                )

    async def _from_own_log(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        request = attrs.evolve(self._request(self._left.ranges), any_origin=True)
        async for page in self._pages(None, request):
            yield page.events

    async def _pages(self, address: Address | None, request: PageRequest) -> AsyncIterator[Page]:
        """Pages of a node's log, or of this one's; what was looked at is noted once it is taken."""
        while not self._cancelled:
            page = await self._page(address, request)
            yield page
            self._left.reached(page.reached)
            ranges = {o: each for o, each in self._left.ranges.items() if o in request.ranges}
            if not page.next or not ranges:
                return
            request = attrs.evolve(request, ranges=ranges, serial=page.next)

    def _page(self, address: Address | None, request: PageRequest) -> Deferred[Page]:
        if address is None:
            return Deferred.fromCoroutine(self._around.pages.page(request))
        assert self._around.fetching is not None
        return self._around.fetching.fetch(address, request)

    async def _from_archive(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        archive = self._around.archive
        assert archive is not None
        await self._await_archive(archive)
        if not (self._left.ranges or self._missed.others):
            return
        for attempt in range(ATTEMPTS):
            try:
                async for events in self._replayed(archive):
                    yield events
                return
            except (NotConnected, Closed) as error:
                # The process that replays has ended; it is started again for what is left.
                if attempt == ATTEMPTS - 1 or self._missed.last:
                    raise
                self.log.warn("replaying begins again: {error}", error=error)

    async def _replayed(self, archive: ArchiveAccess) -> AsyncIterator[Sequence[LoggedEvent]]:
        missed = self._missed
        replay = self._replay = archive.replays.replay(
            ReplayRequest(
                pattern=missed.pattern.text,
                query=missed.query.text,
                namespaces=dict(missed.query.namespaces),
                clearance=missed.clearance,
                ranges=self._wanted_of_archive(),
                others=missed.others,
                from_ms=missed.from_ms,
                until_ms=missed.until_ms,
                last=min(missed.last, MOST_LAST),
            )
        )
        try:
            while events := await replay.more():
                yield events
                reached = _marks(events)
                self._note(reached)
                self._had.update(
                    {o: (mark, None) for o, mark in reached.items() if o not in missed.ranges}
                )
                self._left.reached(reached)
        finally:
            self._replay = None
        self._holes += replay.holes()
        self._note(replay.reached())
        self._left.reached(replay.reached())
        self._left.close()

    def _wanted_of_archive(self) -> dict[str, MarkRange]:
        """What is left. An origin may have died with more than is known here, and the archive
        have it: where that is wanted, too, its range has no end."""
        wanted = self._left.ranges
        if self._missed.open_ended:
            wanted = {
                origin: (max(after, self._beyond.get(origin, after)), self._end(origin, upto))
                for origin, (after, upto) in wanted.items()
            }
            for origin, mark in self._beyond.items():
                wanted.setdefault(origin, (mark, None))
        return {**self._had, **wanted} if self._missed.others else wanted

    def _end(self, origin: str, upto: Mark | None) -> Mark | None:
        return upto if origin == self._around.origin else None

    def _note(self, reached: Mapping[str, Mark]) -> None:
        """What came of the archive of origins that had an end, where that may be passed."""
        if not self._missed.open_ended:
            return
        for origin, mark in reached.items():
            known = self._missed.ranges.get(origin)
            if known is not None and self._end(origin, known[1]) is None and known[1] is not None:
                self._beyond[origin] = max(mark, self._beyond.get(origin, mark))

    async def _await_archive(self, archive: ArchiveAccess) -> None:
        """Wait until the newest events are in the archive, as long as their origins may take."""
        clock = self._around.clock
        until = clock.seconds() + archive.patience
        archive.flush_soon()
        while not self._cancelled:
            left = self._left.ranges
            covered = await archive.covered({origin: after for origin, (after, _) in left.items()})
            ready = all(
                upto is None
                or max((end for _, end in covered.get(origin, ())), default=after) >= upto
                for origin, (after, upto) in left.items()
            )
            if ready or clock.seconds() >= until:
                self._left.end(o for o, intervals in covered.items() if not intervals)
                # What was never archived is told now: what follows it is there.
                for origin, (after, upto) in left.items():
                    missing = holes(after, upto, covered.get(origin, ()))
                    self._holes += [(origin, *each) for each in missing]
                return
            later: Deferred[None] = Deferred()
            clock.callLater(LOOK_AGAIN, later.callback, None)
            await later

    def _request(self, ranges: Mapping[str, MarkRange]) -> PageRequest:
        missed = self._missed
        return PageRequest(
            *(missed.pattern, missed.query, missed.clearance, ranges),
            from_ms=missed.from_ms,
            until_ms=missed.until_ms,
        )


def _marks(events: Sequence[LoggedEvent]) -> dict[str, Mark]:
    return {event.origin: event.mark for event in events}
