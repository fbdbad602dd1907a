"""The part of a recovery that asks logs: of the node where the client was, of the origins, and this
node's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import islice

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.cluster.address import Address
from broker.delivery.recovery import MarkRange, Missed
from broker.errors import BrokerError
from broker.event.place import Mark
from broker.log.records import LoggedEvent
from broker.recovery.context import Surroundings
from broker.recovery.log_merge import in_order
from broker.recovery.log_page_reader import Page, PageRequest
from broker.recovery.page_merge import MergedPages, Pages
from broker.recovery.planner import Remaining
from broker.recovery.remote_logs import Answers

#: Events that are given at a time of those that were gathered.
RUN = 256


class FromLogs:
    """Pages of logs, one at a time. What was looked at is noted in `left`."""

    log = Logger()

    def __init__(self, missed: Missed, around: Surroundings, left: Remaining) -> None:
        self._missed = missed
        self._around = around
        self._left = left
        self._cancelled = False
        self._told: set[str] = set()
        """Origins whose own node has said what it has, for as far as is known here."""
        self._begins: dict[str, set[Mark]] = {}
        """By origin of which nobody has all that was asked for, behind which marks somebody has."""
        self.holes: list[tuple[str, Mark, Mark]] = []
        """What lies before that, where nobody else had it."""

    def cancel(self) -> None:
        """Nobody wants the rest."""
        self._cancelled = True

    async def former(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        """What the node has where the client was."""
        address = Address.parse(self._missed.former)
        request = self._request(self._left.ranges)
        request = attrs.evolve(request, client_id=self._missed.client_id, name=self._missed.name)
        async for page in self._pages(address, request):
            yield page.events

    async def own(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        """Whatever this node has, of any origin."""
        request = attrs.evolve(self._request(self._left.ranges), any_origin=True)
        async for page in self._pages(None, request):
            yield page.events

    async def origins(self, *, archive_follows: bool) -> AsyncIterator[Sequence[LoggedEvent]]:
        """Events of several origins' logs. All are gathered first, for only then it is known whose
        publishers have been at several of them; they are few.

        `archive_follows`: the archive is asked for what is left."""
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
        if self._left.ranges and archive_follows:
            # What an origin's log lacks may be what a publisher sent before it went on to another:
            # the archive, which is asked next, has all of them in their order.
            self._left.go_back(before)
            return
        merged = in_order(gathered)
        while run := list(islice(merged, RUN)):
            yield run

    async def gather(self) -> list[LoggedEvent]:
        """All events of what is left of one origin, as far as a log has all of it."""
        found: list[LoggedEvent] = []
        for origin, each in self._left.ranges.items():
            async for page in self._log_of(origin, each):
                found += page.events
        return found

    async def lost_branch(self, origin: str, after: Mark, upto: Mark) -> AsyncIterator[LoggedEvent]:
        """This node's copies of events that a restored origin has lost, in (`after`, `upto`].

        The origin may log such an event again later. This node drops it then as a duplicate."""
        if not await self._around.pages.has_any(origin, after, upto):
            return
        request = attrs.evolve(self._request({origin: (after, upto)}), any_origin=True)
        while not self._cancelled:
            page = await self._page(None, request)
            for event in page.events:
                yield event
            if not page.next or page.reached.get(origin, after) >= upto:
                return
            request = attrs.evolve(request, serial=page.next)

    async def ends(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        """What logs have still, though they lack the beginning, and nobody else had that."""
        # A log that was damaged at several places has several beginnings.
        while self._skip_to_beginnings():
            async for events in self.origins(archive_follows=False):
                yield events

    def _skip_to_beginnings(self) -> bool:
        found = False
        begins, self._begins = self._begins, {}
        for origin, (after, upto) in self._left.ranges.items():
            ahead = [m for m in begins.get(origin, ()) if m > after and m[1] > after[1]]
            mark = min(ahead, default=after)
            if ahead and (upto is None or upto[1] >= mark[1]):
                self.holes.append((origin, after, mark))
                self._left.reached({origin: mark})
                found = True
        return found

    async def scraps(self, answers: Answers | None = None) -> AsyncIterator[Sequence[LoggedEvent]]:
        """What nodes have logged for their own subscriptions of what no log has all of: this node,
        and others. What is here as another origin's does not come again under a new place.

        `answers` are those of other nodes; None: they are asked."""
        ranges = {
            origin: (after, upto)
            for origin, (after, upto) in self._left.ranges.items()
            if upto is not None and origin != self._around.origin
        }
        others = self._around.others
        if answers is None and others is not None and ranges:
            answers = await others.reached(list(ranges))
        for origin, (after, upto) in ranges.items():
            request = self._request({origin: (after, upto)})
            pages = [self._logged_here(request)]
            if others is not None and answers is not None:
                pages += others.pages(origin, after, upto, answers)
            merged = MergedPages(pages)
            try:
                while run := await self._next_run(merged, after):
                    for event in run:
                        if event.offset > after[1] + 1:
                            self.holes.append((origin, after, (event.epoch, event.offset - 1)))
                        after = event.mark
                    yield await self._around.pages.matching(request, run)
                    self._left.reached({origin: after})
            finally:
                await merged.close()

    async def _logged_here(self, request: PageRequest) -> Pages:
        request = attrs.evolve(request, any_origin=True, as_logged=True)
        while True:
            page = await self._page(None, request)
            yield page.events
            if not page.next:
                return
            request = attrs.evolve(request, serial=page.next)

    async def _next_run(self, merged: MergedPages, after: Mark) -> list[LoggedEvent]:
        run: list[LoggedEvent] = []
        while len(run) < RUN and not self._cancelled:
            event = await merged.next(run[-1].mark if run else after)
            if event is None:
                break
            run.append(event)
        return run

    def has_no_log(self, origin: str) -> None:
        """No node has the log of an origin: none is waited for."""
        self._told.add(origin)

    def cut_off(self) -> list[str]:
        """The origins of which something known is left that their own node may have: it could not
        be asked, or did not answer."""
        return [
            origin
            for origin, (_, upto) in self._left.ranges.items()
            if upto is not None and origin != self._around.origin and origin not in self._told
        ]

    async def _log_of(self, origin: str, wanted: MarkRange) -> AsyncIterator[Page]:
        request = self._request({origin: wanted})
        whom: list[Address | None] = [None] if self._around.pages.keeps(origin) else []
        if origin != self._around.origin:
            whom += self._around.homes(origin)
        for address in whom:
            left = self._left.ranges.get(origin)
            if left is None:
                return
            of = ""
            try:
                async for page in self._pages(
                    address, attrs.evolve(request, ranges={origin: left})
                ):
                    of = page.origin
                    if origin in page.begins:
                        self._begins.setdefault(origin, set()).add(page.begins[origin])
                    yield page
            except BrokerError as error:
                self.log.info(
                    "{whom} sends nothing of {origin}: {error}",
                    whom=address,
                    origin=origin,
                    error=error,
                )
            else:
                if of == origin:
                    self._told.add(origin)

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
            return Deferred.fromCoroutine(self._around.pages.page(request, wait=True))
        assert self._around.fetching is not None
        return self._around.fetching.fetch(address, request)

    def _request(self, ranges: Mapping[str, MarkRange]) -> PageRequest:
        missed = self._missed
        return PageRequest(
            *(missed.pattern, missed.query, missed.clearance, ranges),
            from_ms=missed.from_ms,
            until_ms=missed.until_ms,
        )
