"""Pages of the own log for nodes that miss something (DCP D45)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.cluster.address import Address
from broker.cluster.remote_interest import RemoteWants
from broker.cluster.traffic.frame import Carried, Range
from broker.cluster.traffic.messages import Resume
from broker.event.place import Mark
from broker.log.damage import DamageFound
from broker.log.event_log import EventLog
from broker.log.histories import Loss
from broker.log.records import LoggedEvent
from broker.matching.contract import Accepted, IMatcher
from broker.sessions.turns import SECONDS_A_TURN
from broker.transport.clock import IClock

#: A page: so many events that are looked at, of about so many bytes.
PAGE_EVENTS = 512
PAGE_BYTES = 512 << 10
#: Nodes that may wait for a page; more are not heard, and ask again.
MOST_READERS = 1_024
#: Readers of which it is remembered that they were told a loss.
MOST_TOLD = 16_384


class Pages:
    """Reads one page at a time, for one reader after the other."""

    log = Logger()

    def __init__(
        self,
        *,
        event_log: EventLog,
        matcher: IMatcher,
        wants: RemoteWants,
        clock: IClock,
        destination_of: Callable[[Address], Address],
        cleared: Callable[[Address, int], bool],
        served: Callable[[Resume, Range, list[Carried]], None],
    ) -> None:
        """`destination_of` says whose wants a node's are part of."""
        self._event_log = event_log
        self._matcher = matcher
        self._wants = wants
        self._clock = clock
        self._destination_of = destination_of
        self._cleared = cleared
        self._served = served
        self._asked: OrderedDict[Address, Resume] = OrderedDict()
        self._reading = False
        self.has_all: Callable[[Address, Loss], bool] = lambda *_: False
        """Whether a reader has all own events of a branch, of which this log has lost some."""
        self._told_losses: set[tuple[Address, Mark]] = set()
        """Readers that were told a loss where it lay."""
        self.denied = 0
        """Events that were left out, since no way to the reader is cleared for them."""

    def serve(self, resume: Resume) -> None:
        """Read a page; of one reader the last question counts."""
        if resume.source not in self._asked and len(self._asked) >= MOST_READERS:
            return
        self._asked[resume.source] = resume
        if not self._reading:
            self._reading = True
            Deferred.fromCoroutine(self._read_all()).addErrback(
                lambda failure: self.log.failure("reading for other nodes failed", failure)
            )

    async def _read_all(self) -> None:
        try:
            while self._asked:
                _, resume = self._asked.popitem(last=False)
                await self._read(resume)
        finally:
            self._reading = False

    async def _read(self, resume: Resume) -> None:
        log = self._event_log
        origin, after = log.origin, resume.after
        start = max(after, log.since.get(origin, (0, 0)))
        durable, newest = log.coverage[origin], log.cut
        loss = self._next_loss(resume.source, start)
        lost = loss[1] if loss is not None and loss[0] <= start else None
        start = max(start, lost or start)
        # Where all is durable, an epoch may have begun in which there is nothing yet.
        upto = max(newest if newest[1] == durable[1] else durable, start)
        try:
            events, damaged = await self._behind(start)
        except DamageFound:
            # The log is being repaired: the reader asks again.
            return
        # Own places have no holes: at an earlier end the page is full, or damage begins.
        if events and events[-1].offset < durable[1]:
            upto = events[-1].mark
        elif events:
            upto = max(upto, events[-1].mark)
        if loss is not None and start < loss[0] < upto:
            # The next page begins with the loss.
            upto = loss[0]
            events = [event for event in events if event.mark <= upto]
        # Retention may have taken some of them while they were read, or before that.
        since = max(log.since.get(origin, (0, 0)), damaged)
        events = [event for event in events if event.mark > since]
        gone = max([mark for mark in (since, lost) if mark and mark > after], default=None)
        upto = max(upto, since)
        if resume.all:
            carried = self._cleared_of(events, resume.source)
        else:
            carried = await self._wanted(events, resume.source)
        page = Range(resume.source, after, upto, gone, all=resume.all)
        self._served(resume, page, carried)

    async def _behind(self, start: Mark) -> tuple[list[LoggedEvent], Mark]:
        """Own events behind a place, and up to which place before them damage was given up."""
        log = self._event_log
        lost = (0, 0)
        while True:
            behind = max(start, lost)
            try:
                events = await log.read_of(log.origin, behind, PAGE_EVENTS, PAGE_BYTES, wait=False)
            except DamageFound as found:
                if not log.repairs.gave_up(found.damage):
                    raise
                lost = found.damage.upto
            else:
                return events, lost

    def _next_loss(self, reader: Address, start: Mark) -> tuple[Mark, Mark] | None:
        """Behind and up to which places a reader is told the next loss: where it lay, or, for one
        that has come further, where it was recorded."""
        for loss in self._event_log.chain.losses:
            if not loss.count or self.has_all(reader, loss):
                continue
            if loss.is_before(start):
                if loss.branch <= start:
                    if len(self._told_losses) >= MOST_TOLD:
                        self._told_losses.clear()
                    self._told_losses.add((reader, loss.after))
                return loss.branch, loss.upto
            if start < loss.last and (reader, loss.after) not in self._told_losses:
                return loss.after, loss.last
        return None

    async def _wanted(self, events: list[LoggedEvent], reader: Address) -> list[Carried]:
        destination = self._destination_of(reader)
        carried: list[Carried] = []
        looked = 0
        while looked < len(events):
            documents = [event.document for event in events[looked:]]
            verdicts = self._matcher.match(documents, seconds=SECONDS_A_TURN)
            for event, verdict in zip(events[looked:], verdicts, strict=False):
                # What can not be matched any more is sent rather than kept back.
                wanted = not isinstance(verdict, Accepted) or (
                    destination in self._wants.destinations(verdict.subscriptions)
                )
                if wanted and not self._cleared(reader, event.level):
                    self.denied += 1
                elif wanted:
                    carried.append(Carried(event.mark, event.record, event.document, event.level))
            looked += len(verdicts)
            if looked < len(events):
                await self._turn()
        return carried

    def _cleared_of(self, events: list[LoggedEvent], reader: Address) -> list[Carried]:
        """All events for which a way to the reader is cleared."""
        cleared = [event for event in events if self._cleared(reader, event.level)]
        self.denied += len(events) - len(cleared)
        return [Carried(event.mark, event.record, event.document, event.level) for event in cleared]

    def _turn(self) -> Deferred[Any]:
        """Others have theirs first."""
        later: Deferred[Any] = Deferred()
        self._clock.callLater(0, later.callback, None)
        return later
