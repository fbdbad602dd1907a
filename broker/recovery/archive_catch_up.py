"""Fetches overdue events from the archive (`docs/protocols/recovery.md`, X6)."""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import Any, Protocol

import attrs
from twisted.logger import Logger

from broker.archive.interval import contiguous_end
from broker.errors import BrokerError
from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent
from broker.recovery.archive_access import ArchiveAccess
from broker.recovery.context import RecoveryContext
from broker.recovery.periodic_job import PeriodicJob
from broker.replay.request import PLACE, ReplayRequest
from broker.transport.sleep import sleep

#: Seconds.
CHECK_INTERVAL = 20.0
_LOG_POLL_INTERVAL = 0.05
#: Seconds until a page must be in the log.
_LOG_TIMEOUT = 60.0
#: Clearance is checked when the events are here.
_ALL_LEVELS = 2


class OriginFlows(Protocol):
    @property
    def has_no_interest(self) -> bool:
        """True if no subscription needs other origins."""

    def unreachable_positions(self) -> Mapping[str, Mark]:
        """Ends of the needed events of origins that may not send themselves."""

    def positions_of_new(self, origins: Collection[str]) -> Mapping[str, Mark]:
        """Positions of those that never sent events, since they had no links."""

    def position_of(self, origin: str) -> Mark | None:
        """None if the origin is unknown."""

    def ingest_page(
        self, origin: str, after: Mark, upto: Mark, events: Sequence[LoggedEvent]
    ) -> None:
        """Ingest all events in (after, upto]."""


@attrs.frozen
class _Backlog:
    first_seen: float
    archived_upto: Mark


class ArchiveCatchUp:
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

    def run_if_due(self) -> None:
        """Call it each second."""
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
                backlog = _Backlog(now, upto)
            self._backlogs[origin] = backlog
            if now - backlog.first_seen >= self._context.patience:
                overdue[origin] = upto
        for origin, upto in overdue.items():
            try:
                await self._fetch_origin(origin, upto)
            except BrokerError as error:
                self.log.info(
                    "overdue events of {origin} could not be read from the archive: {error}",
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
                    # A repair may follow, or the origin sends again.
                    return
                end = events[-1].mark
                self._flows.ingest_page(origin, after, end, events)
                self.events_found += len(events)
                if not await wait_until_logged(self._flows, self._context, origin, end):
                    return
                after = end
            # A manifest may have been deleted meanwhile.
            reached = min(upto, replay.end_marks().get(origin, after))
            if not replay.missing_ranges() and reached > after:
                self._flows.ingest_page(origin, after, reached, ())
        finally:
            replay.cancel()


async def wait_until_logged(
    flows: OriginFlows, context: RecoveryContext, origin: str, end: Mark
) -> bool:
    """Return whether the log has the events up to `end`, after at most 60 s."""
    until = context.clock.seconds() + _LOG_TIMEOUT
    while (flows.position_of(origin) or (0, 0)) < end:
        if context.clock.seconds() >= until:
            return False
        await sleep(context.clock, _LOG_POLL_INTERVAL)
    return True
