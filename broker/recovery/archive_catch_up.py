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

from broker.archive.interval import contiguous_end
from broker.errors import BrokerError
from broker.event.place import Mark
from broker.log.records import LoggedEvent
from broker.recovery.archive_access import ArchiveAccess
from broker.recovery.context import RecoveryContext
from broker.recovery.periodic_job import PeriodicJob
from broker.replay.request import PLACE, ReplayRequest

#: Seconds between two looks.
CHECK_INTERVAL = 20.0
#: Seconds between looks whether a page is in the log.
_LOG_POLL_INTERVAL = 0.05
#: Seconds that a page has to get there: it waits for a disk that is full, say.
_LOG_TIMEOUT = 60.0
#: The highest rank: what is wanted here, and by whom, is decided when it is here.
_ALL_LEVELS = 2


class OriginFlows(Protocol):
    """What comes of other origins."""

    @property
    def has_no_interest(self) -> bool:
        """Whether nothing is wanted here."""

    def unreachable_positions(self) -> Mapping[str, Mark]:
        """Those that may not come by themselves, of which something may be wanted here: up to where
        all of that is in the log."""

    def positions_of_new(self, origins: Collection[str]) -> Mapping[str, Mark]:
        """Those of these of which nothing has come, since their nodes were never linked to others,
        and all is wanted behind these marks."""

    def position_of(self, origin: str) -> Mark | None:
        """The same of one; None: nothing is known of it."""

    def ingest_page(
        self, origin: str, after: Mark, upto: Mark, events: Sequence[LoggedEvent]
    ) -> None:
        """All events of an origin in (after, upto]."""


@attrs.frozen
class _Backlog:
    first_seen: float
    """When it was seen first."""
    archived_upto: Mark
    """What the archive had then."""


class ArchiveCatchUp:
    """One node's."""

    log = Logger()

    def __init__(
        self, flows: OriginFlows, archive: ArchiveAccess, context: RecoveryContext
    ) -> None:
        self._flows = flows
        self._archive = archive
        self._context = context
        self._job = PeriodicJob(context.clock, CHECK_INTERVAL, self._start)
        self._backlogs: dict[str, _Backlog] = {}
        self.events_found = 0
        """Events that came so."""

    def run_if_due(self) -> None:
        """To be called each second: once in a while it looks."""
        self._job.run_if_due()

    def _start(self) -> Coroutine[Any, Any, None] | None:
        if self._flows.has_no_interest:
            self._backlogs.clear()
            return None
        return self._fetch_overdue(self._flows.unreachable_positions())

    async def _fetch_overdue(self, positions: Mapping[str, Mark]) -> None:
        coverage = await self._archive.get_coverage(positions)
        new_positions = self._flows.positions_of_new(coverage.other_origins)
        if new_positions:
            positions = {**positions, **new_positions}
            coverage = await self._archive.get_coverage(positions)
        intervals = coverage.intervals
        now = self._context.clock.seconds()
        before = self._backlogs
        # Of those that are not named it could not tell.
        self._backlogs = {
            o: each for o, each in before.items() if o in positions.keys() - intervals.keys()
        }
        overdue: dict[str, Mark] = {}
        for origin in intervals:
            position = self._flows.position_of(origin) or positions[origin]
            upto = contiguous_end(tuple(intervals[origin]), position)
            if upto[1] <= position[1]:
                continue
            backlog = before.get(origin)
            if backlog is None or backlog.archived_upto <= position:
                # What it lacked has come; or this was not yet there at the last look.
                backlog = _Backlog(now, upto)
            self._backlogs[origin] = backlog
            if now - backlog.first_seen >= self._context.patience:
                overdue[origin] = upto
        for origin, upto in overdue.items():
            try:
                await self._fetch_origin(origin, upto)
            except BrokerError as error:
                self.log.info(
                    "what {origin} does not send can not be had of the archive: {error}",
                    origin=origin,
                    error=error,
                )

    async def _fetch_origin(self, origin: str, upto: Mark) -> None:
        after = self._flows.position_of(origin)
        if after is None or after >= upto:
            return
        ranges = {origin: (after, upto)}
        request = ReplayRequest(
            *(">", "true()"), clearance=_ALL_LEVELS, ranges=ranges, others=False, order=PLACE
        )
        replay = self._archive.replays.start_replay(request)
        try:
            while events := await replay.next_events():
                if replay.missing_ranges() or self._flows.position_of(origin) != after:
                    # Damaged files are written again by others, if at all; or it flows again.
                    return
                end = events[-1].mark
                self._flows.ingest_page(origin, after, end, events)
                self.events_found += len(events)
                if not await wait_until_logged(self._flows, self._context, origin, end):
                    return
                after = end
            # A manifest that was deleted meanwhile may have taken the end of it.
            reached = min(upto, replay.end_marks().get(origin, after))
            if not replay.missing_ranges() and reached > after:
                self._flows.ingest_page(origin, after, reached, ())
        finally:
            replay.cancel()


async def wait_until_logged(
    flows: OriginFlows, context: RecoveryContext, origin: str, end: Mark
) -> bool:
    """Wait until a page of an origin is in the log, up to its end; whether it is."""
    until = context.clock.seconds() + _LOG_TIMEOUT
    while (flows.position_of(origin) or (0, 0)) < end:
        if context.clock.seconds() >= until:
            return False
        await context.sleep(_LOG_POLL_INTERVAL)
    return True
