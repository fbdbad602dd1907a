"""The archive stands in for nodes that are gone (X6): who reads on at other nodes gets what such
a node had logged and archived, and could not send any more.

A keeper of copies does the same for nodes that have one. What the archive has had for `patience`
and has not come by then is fetched from it; this node gets it as it would get pages of the origin's
log, and logs what is wanted here. It does not matter why it has not come.
"""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import Any, Protocol

import attrs
from twisted.logger import Logger

from broker.archive.intervals import reach
from broker.errors import BrokerError
from broker.event.place import Mark
from broker.log.records import LoggedEvent
from broker.recovery.archive_access import ArchiveAccess
from broker.recovery.context import Surroundings
from broker.recovery.periodic_job import RegularJob
from broker.replay.request import PLACE, ReplayRequest

#: Seconds between two looks.
LOOK_EVERY = 20.0
#: Seconds between looks whether a page is in the log.
_SOON = 0.05
#: Seconds that a page has to get there: it waits for a disk that is full, say.
_WHILE = 60.0
#: The highest rank: what is wanted here, and by whom, is decided when it is here.
_EVERYTHING = 2


class Flows(Protocol):
    """What comes of other origins."""

    @property
    def idle(self) -> bool:
        """Whether nothing is wanted here."""

    def wanted(self) -> Mapping[str, Mark]:
        """Those that may not come by themselves, of which something may be wanted here: up to where
        all of that is in the log."""

    def new(self, origins: Collection[str]) -> Mapping[str, Mark]:
        """Those of these of which nothing has come, since their nodes were never linked to others,
        and all is wanted behind these marks."""

    def stands_at(self, origin: str) -> Mark | None:
        """The same of one; None: nothing is known of it."""

    def page(self, origin: str, after: Mark, upto: Mark, events: Sequence[LoggedEvent]) -> None:
        """All events of an origin in (after, upto]."""


@attrs.frozen
class _Lack:
    since: float
    """When it was seen first."""
    upto: Mark
    """What the archive had then."""


class StandingIn:
    """One node's."""

    log = Logger()

    def __init__(self, flows: Flows, archive: ArchiveAccess, around: Surroundings) -> None:
        self._flows = flows
        self._archive = archive
        self._around = around
        self._job = RegularJob(around.clock, LOOK_EVERY, self._begin)
        self._lacking: dict[str, _Lack] = {}
        self.found = 0
        """Events that came so."""

    def look(self) -> None:
        """To be called each second: once in a while it looks."""
        self._job.look()

    def _begin(self) -> Coroutine[Any, Any, None] | None:
        if self._flows.idle:
            self._lacking.clear()
            return None
        return self._compare(self._flows.wanted())

    async def _compare(self, wanted: Mapping[str, Mark]) -> None:
        known = await self._archive.covered(wanted)
        new = self._flows.new(known.others)
        if new:
            wanted = {**wanted, **new}
            known = await self._archive.covered(wanted)
        covered = known.intervals
        now = self._around.clock.seconds()
        before = self._lacking
        # Of those that are not named it could not tell.
        self._lacking = {
            o: each for o, each in before.items() if o in wanted.keys() - covered.keys()
        }
        overdue: dict[str, Mark] = {}
        for origin in covered:
            stands = self._flows.stands_at(origin) or wanted[origin]
            upto = reach(tuple(covered[origin]), stands)
            if upto[1] <= stands[1]:
                continue
            lack = before.get(origin)
            if lack is None or lack.upto <= stands:
                # What it lacked has come; or this was not yet there at the last look.
                lack = _Lack(now, upto)
            self._lacking[origin] = lack
            if now - lack.since >= self._around.patience:
                overdue[origin] = upto
        for origin, upto in overdue.items():
            try:
                await self._fetch(origin, upto)
            except BrokerError as error:
                self.log.info(
                    "what {origin} does not send can not be had of the archive: {error}",
                    origin=origin,
                    error=error,
                )

    async def _fetch(self, origin: str, upto: Mark) -> None:
        after = self._flows.stands_at(origin)
        if after is None or after >= upto:
            return
        ranges = {origin: (after, upto)}
        request = ReplayRequest(
            *(">", "true()"), clearance=_EVERYTHING, ranges=ranges, others=False, order=PLACE
        )
        replay = self._archive.replays.replay(request)
        try:
            while events := await replay.more():
                if replay.holes() or self._flows.stands_at(origin) != after:
                    # Damaged files are written again by others, if at all; or it flows again.
                    return
                end = events[-1].mark
                self._flows.page(origin, after, end, events)
                self.found += len(events)
                if not await is_in_log(self._flows, self._around, origin, end):
                    return
                after = end
            # A manifest that was deleted meanwhile may have taken the end of it.
            reached = min(upto, replay.reached().get(origin, after))
            if not replay.holes() and reached > after:
                self._flows.page(origin, after, reached, ())
        finally:
            replay.cancel()


async def is_in_log(flows: Flows, around: Surroundings, origin: str, end: Mark) -> bool:
    """Wait until a page of an origin is in the log, up to its end; whether it is."""
    until = around.clock.seconds() + _WHILE
    while (flows.stands_at(origin) or (0, 0)) < end:
        if around.clock.seconds() >= until:
            return False
        await around.after(_SOON)
    return True
