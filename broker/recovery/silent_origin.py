"""Recovery of events of a silent origin from other nodes (`docs/protocols/recovery.md`).

Those nodes have logged only events that their subscriptions needed. So a missing range is given up
only if all nodes, among them that of the origin, have answered and none has the origin's log. Until
then nothing behind it is ingested, since the origin's node may return. After a day its return is
not awaited. Giving up concerns this node alone: its subscriptions get a gap.
"""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Sequence
from typing import Any, Final, Protocol

import attrs
from twisted.logger import Logger

from broker.cluster.known_peers import PEER_EXPIRY
from broker.event.gap_reason import LOST, UNREACHABLE
from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent
from broker.recovery.archive_access import ArchiveAccess
from broker.recovery.archive_catch_up import OriginFlows, wait_until_logged
from broker.recovery.context import RecoveryContext
from broker.recovery.page_merge import PageMerge, has_places_between
from broker.recovery.periodic_job import PeriodicJob
from broker.recovery.remote_logs import MAX_ORIGINS, LogSurvey, RemoteLogs
from broker.transport.backoff import backoff_bound

#: Seconds.
CHECK_INTERVAL: Final = 5.0
#: Seconds until the next survey, at first and at most.
FIRST_RETRY: Final = 20.0
MAX_RETRY: Final = 3600.0
BATCH_EVENTS: Final = 256
#: More places that a node names, without an event there, are not believed. An origin that returns
#: ignores positions over 2^32 behind its own.
MOST_UNSHOWN: Final = 1 << 31


class SilentOriginFlows(OriginFlows, Protocol):
    def is_gone(self, origin: str) -> bool:
        """Return True if the origin's log does not come back."""

    def reachable_nodes(self) -> Collection[str]:
        """Return the reachable nodes of the cluster, and the neighbouring clusters."""

    def give_up_range(self, origin: str, after: Mark, upto: Mark, reason: str) -> None:
        """Continue behind (after, upto]. Subscriptions of this node get a gap with the reason."""


@attrs.frozen
class _Retry:
    attempts: int
    again_at: float
    was_gone: bool


class SilentOriginRecovery:
    log = Logger()

    def __init__(
        self,
        flows: SilentOriginFlows,
        remote_logs: RemoteLogs,
        archive: ArchiveAccess | None,
        context: RecoveryContext,
    ) -> None:
        self._flows = flows
        self._remote_logs = remote_logs
        self._archive = archive
        self._context = context
        self._job = PeriodicJob(context.clock, CHECK_INTERVAL, self._start)
        self._positions: dict[str, tuple[Mark, float]] = {}
        """By origin this node's last place, and the time since when."""
        self._retries: dict[str, _Retry] = {}
        self._unanswered: frozenset[str] = frozenset()
        """Nodes and clusters, silent in the last survey, that may have more."""
        self.events_found = 0
        self.places_lost = 0

    # ------------------------------------------------------------------ surveys

    def run_if_due(self) -> None:
        """Call it each second."""
        self._job.run_if_due()

    def _start(self) -> Coroutine[Any, Any, None] | None:
        if self._flows.has_no_interest:
            self._positions.clear()
            return None
        due = self._due_origins()
        return self._survey_origins(due) if due else None

    def _due_origins(self) -> list[str]:
        now = self._context.clock.seconds()
        has_new_node = not self._unanswered.isdisjoint(self._flows.reachable_nodes())
        before = self._positions
        self._positions = {
            origin: before[origin] if before.get(origin, (None,))[0] == mark else (mark, now)
            for origin, mark in self._flows.unreachable_positions().items()
        }
        patience = self._context.patience
        silent = [origin for origin, (_, at) in self._positions.items() if now - at >= patience]
        self._retries = {o: self._retries[o] for o in silent if o in self._retries}
        due = [origin for origin in silent if has_new_node or self._is_due(origin, now)]
        for origin in due[:MAX_ORIGINS]:
            times = self._retries[origin].attempts + 1 if origin in self._retries else 0
            again_at = now + backoff_bound(times, FIRST_RETRY, MAX_RETRY)
            self._retries[origin] = _Retry(times, again_at, self._flows.is_gone(origin))
        return due[:MAX_ORIGINS]

    def _is_due(self, origin: str, now: float) -> bool:
        retry = self._retries.get(origin)
        if retry is None or now >= retry.again_at:
            return True
        return self._flows.is_gone(origin) and not retry.was_gone

    async def _survey_origins(self, origins: Sequence[str]) -> None:
        flows = [flow for origin in origins for flow in self._context.flows_of(origin)]
        survey = await self._remote_logs.survey_origins(list(dict.fromkeys([*origins, *flows])))
        self._unanswered = frozenset(survey.unanswered) - frozenset(self._flows.reachable_nodes())
        for origin in origins:
            await self._catch_up(origin, survey)

    # ------------------------------------------------------------------ catching up

    async def _catch_up(self, origin: str, survey: LogSurvey) -> None:
        after, upto = self._flows.position_of(origin), survey.furthest_place(origin)
        if after is None or upto <= after:
            return
        survey = attrs.evolve(survey)
        silent = frozenset(survey.unanswered)
        if silent and silent == self._unanswered and self._flows.is_gone(origin):
            # The origin's node is one of those that are away, and others may never return either.
            survey.is_complete = True
        if not survey.has_asked_senders(origin) and not self._is_given_up(origin):
            survey.is_complete = False
        if origin in survey.available_logs and not self._flows.is_gone(origin):
            survey.is_complete = False
        # Events of other flows show that their places are not missing in this one.
        flows = self._context.flows_of(origin)
        pages = [
            each
            for flow in flows
            for each in self._remote_logs.read_pages(flow, after, upto, survey)
        ]
        if self._archive is not None:
            coverage = await self._archive.get_coverage({origin: after})
            if not coverage.is_known or origin in coverage.repairable:
                survey.is_complete = False
            if any(end > after for _, end in coverage.intervals.get(origin, ())):
                pages += [
                    self._remote_logs.read_archive(flow, after, upto, survey) for flow in flows
                ]
        merged = PageMerge(pages)
        try:
            await self._take_events(origin, after, upto, merged, survey)
        finally:
            await merged.close()

    def _is_given_up(self, origin: str) -> bool:
        """Return whether the return of an origin's node is not awaited any more."""
        if self._flows.is_gone(origin):
            return True
        _, since = self._positions.get(origin, (None, float("inf")))
        return self._context.clock.seconds() - since >= PEER_EXPIRY

    async def _take_events(
        self, origin: str, after: Mark, upto: Mark, merged: PageMerge, survey: LogSurvey
    ) -> None:
        run: list[LoggedEvent] = []
        reached = after
        while True:
            event = await merged.next_event(reached)
            ends = event is None or event.offset != reached[1] + 1
            if reached > after and (ends or len(run) >= BATCH_EVENTS):
                if not await self._ingest_page(origin, after, reached, run):
                    return
                after, run = reached, []
            if ends:
                end = upto if event is None else (event.mark[0], event.offset - 1)
                if event is None and end[1] > reached[1] + MOST_UNSHOWN:
                    return
                if has_places_between(after, end):
                    is_over = survey.is_complete or self._is_revoked_behind(origin, after)
                    if not is_over or not await self._give_up(origin, after, end):
                        return
                    after = reached = end
            if event is None:
                return
            reached = event.mark
            if event.origin == origin:
                run.append(event)

    def _is_revoked_behind(self, origin: str, mark: Mark) -> bool:
        """Return whether no later event of the log is accepted from any node."""
        last = self._context.revoked.get(origin)
        return last is not None and mark >= last

    async def _ingest_page(
        self, origin: str, after: Mark, upto: Mark, events: list[LoggedEvent]
    ) -> bool:
        if self._flows.position_of(origin) != after:
            # The origin sends again.
            return False
        self._flows.ingest_page(origin, after, upto, events)
        self.events_found += len(events)
        return await wait_until_logged(self._flows, self._context, origin, upto)

    async def _give_up(self, origin: str, after: Mark, upto: Mark) -> bool:
        if self._flows.position_of(origin) != after:
            return False
        self.places_lost += upto[1] - after[1]
        self.log.warn(
            "no node has the events of {origin} behind {after} and up to {upto}",
            origin=origin,
            after=f"{after[0]}:{after[1]}",
            upto=f"{upto[0]}:{upto[1]}",
        )
        is_gone = self._flows.is_gone(origin) or self._is_revoked_behind(origin, after)
        reason = LOST if is_gone else UNREACHABLE
        self._flows.give_up_range(origin, after, upto, reason)
        return await wait_until_logged(self._flows, self._context, origin, upto)
