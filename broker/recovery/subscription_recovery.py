"""Recovery of one subscription's missed events, from one source after the other (P11, X6).

Each source yields the order of each origin, so the next one continues behind the last event.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.archive.interval import Interval, Intervals, difference, has_branches
from broker.delivery.recovery_contract import LostRange, RecoveryRequest
from broker.errors import BrokerError, ReplayTooLarge
from broker.event.event_time import ANY_TIME, is_within
from broker.event.flow import origin_of
from broker.event.gap_reason import LOST, RETENTION, UNREACHABLE
from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent, time_of
from broker.queue_memory import HeldBytes
from broker.recovery.archive_source import MAX_LAST, ArchiveSource
from broker.recovery.context import POLL_INTERVAL, RecoveryContext
from broker.recovery.log_source import LogSource
from broker.recovery.lost_branch_reader import LostBranchReader
from broker.recovery.page_merge import has_places_between
from broker.recovery.planner import OWN_LOG, PlanStep, RemainingRanges, plan_steps
from broker.replay.engine.contract import MissingRange
from broker.transport.sleep import sleep

WAITING = "cut off"


class SubscriptionRecovery:
    """Implementation of `broker.delivery.recovery_contract.ActiveRecovery`."""

    log = Logger()

    def __init__(
        self,
        missed: RecoveryRequest,
        context: RecoveryContext,
        busy: int = 0,
        on_end: Callable[[SubscriptionRecovery], object] = lambda _: None,
    ) -> None:
        """`busy` counts other active recoveries. `on_end` is called once, at the end."""
        self._report_end = on_end
        self._held = HeldBytes(context.queue_memory)
        self._is_too_large = False
        self._missed = missed
        self._context = context
        remaining = self._remaining = RemainingRanges(missed.ranges, missed.known_ends)
        self._log_source = LogSource(missed, context, remaining)
        self._archive_source = (
            None
            if context.archive is None
            else ArchiveSource(missed, context, context.archive, remaining)
        )
        self._events = self._all_events()
        self._held_back: Sequence[LoggedEvent] = ()
        """Events behind a loss, which are returned next."""
        self._losses_before: list[LostRange] = []
        self._reported: dict[str, list[Interval]] = {}
        """Losses that `preceding_losses` has returned."""
        self._error: BrokerError | None = None
        self._is_cancelled = False
        self._sources = context.available_sources(missed, busy)
        self._has_unnamed_origins = missed.all_origins
        """True if origins without a range may have events."""
        self.steps = plan_steps(missed.ranges, self._sources, all_origins=missed.all_origins)
        self.stage = ""
        self.has_failed = False
        """The client got the error, and may ask again."""
        self.events_sent = 0
        self.events_by_source: Counter[str] = Counter()

    def next_events(self) -> Deferred[Sequence[LoggedEvent]]:
        return Deferred.fromCoroutine(self._more())

    async def _more(self) -> Sequence[LoggedEvent]:
        if self._is_cancelled:
            return []
        if not self._held_back:
            async for events in self._events:
                if events:
                    self._held_back = events
                    break
        if self._held_back:
            events, self._held_back = self._split_at_loss(self._held_back)
            self.events_sent += len(events)
            return events
        if self._is_too_large:
            self._end()
            raise ReplayTooLarge(
                f"the node has no memory for the last {self._missed.last} events now: ask for "
                "fewer, or for those since a time"
            )
        if self._error is not None and (self._remaining.ranges or self._missed.all_origins):
            # The rest is not lost: the archive may have it.
            self.has_failed = True
            self._end()
            raise self._error
        self._end()
        return []

    def _split_at_loss(
        self, events: Sequence[LoggedEvent]
    ) -> tuple[Sequence[LoggedEvent], Sequence[LoggedEvent]]:
        """Split events at the first one behind a loss, and record the losses before all of them.

        A gap comes before the events behind it, and no position passes it earlier (guarantee 6).
        """
        self._losses_before = []
        unreported = self._unreported(self._missing_ranges())
        for index, event in enumerate(events) if unreported else ():
            passed = [each for each in unreported.get(event.origin, ()) if each[1] < event.mark]
            if passed and index:
                return events[:index], events[index:]
            if passed:
                self._reported.setdefault(event.origin, []).extend(passed)
                self._losses_before += self._as_losses(event.origin, passed)
                unreported = self._unreported(self._missing_ranges())
        return events, ()

    def preceding_losses(self) -> Sequence[LostRange]:
        return self._losses_before

    def open_range_ends(self) -> Mapping[str, Mark]:
        beyond = {} if self._archive_source is None else self._archive_source.beyond
        return {**self._remaining.open_ends, **beyond}

    def remaining_losses(self) -> Sequence[LostRange]:
        lost = self._unreported([*self._missing_ranges(), *self._unfound_ranges()])
        return [each for origin, found in lost.items() for each in self._as_losses(origin, found)]

    @property
    def lost_places(self) -> int:
        """At the end: the number of places that no source had."""
        lost = [each for found in self._reported.values() for each in found]
        lost += [(each.after, each.upto) for each in self.remaining_losses()]
        return sum(upto[1] - after[1] for after, upto in lost)

    def _unfound_ranges(self) -> list[MissingRange]:
        return [
            (origin, after, upto)
            for origin, (after, upto) in self._remaining.ranges.items()
            # An epoch may have begun without events.
            if upto is not None and upto[1] > after[1]
        ]

    def _missing_ranges(self) -> list[MissingRange]:
        archived = [] if self._archive_source is None else self._archive_source.missing_ranges
        return [*archived, *self._log_source.missing_ranges]

    def _unreported(self, ranges: Sequence[MissingRange]) -> dict[str, Intervals]:
        found: dict[str, list[Interval]] = {}
        for origin, after, upto in ranges:
            found.setdefault(origin, []).append((self._loss_start(origin, after, upto), upto))
        reported = self._reported
        return {
            origin: difference(each, reported.get(origin, ())) for origin, each in found.items()
        }

    def _loss_start(self, origin: str, after: Mark, upto: Mark) -> Mark:
        """Return the mark after which the client misses events of (`after`, `upto`]."""
        had = self._missed.position.get(origin, after)
        if had <= after or upto <= had:
            return max(had, after)
        # The client's place is on a lost branch. New events lie behind the branch place.
        branch, _ = self._missed.ranges.get(origin, (had, None))
        return upto[0], branch[1]

    def _as_losses(self, origin: str, intervals: Iterable[Interval]) -> list[LostRange]:
        reason = self._missed.gap_reason
        if reason in (LOST, RETENTION) and self._log_source.is_unanswered(origin):
            reason = UNREACHABLE
        return [LostRange(origin, *each, reason) for each in intervals]

    @property
    def client_id(self) -> str:
        return self._missed.client_id

    @property
    def is_cancelled(self) -> bool:
        return self._is_cancelled

    def snapshot(self) -> dict[str, Any]:
        looked_at, of = (
            (0, 0) if self._archive_source is None else self._archive_source.scanned_rows
        )
        return {
            "subscription": self._missed.number,
            "durable": self._missed.durable_name,
            "sources": [step.source for step in self.steps],
            "stage": self.stage,
            "events": self.events_sent,
            "found": dict(self.events_by_source),
            "looked_at": looked_at,
            "of": of,
        }

    def _end(self) -> None:
        self._held.close()
        self._report_end(self)

    def cancel(self) -> None:
        self._is_cancelled = True
        self._cancel_sources()
        self._end()

    def _cancel_sources(self) -> None:
        self._log_source.cancel()
        if self._archive_source is not None:
            self._archive_source.cancel()

    # ------------------------------------------------------------------ sources

    async def _all_events(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        if not self._missed.last:
            async for events in self._merge_lost_branches():
                yield self._select_by_time(events)
            return
        newest: deque[LoggedEvent] = deque()
        size = 0
        async for events in self._run_steps():
            for event in self._select_by_time(events):
                size += event.size
                newest.append(event)
                if len(newest) > min(self._missed.last, MAX_LAST):
                    size -= newest.popleft().size
            if not self._held.resize(size):
                self._is_too_large = True
                self._cancel_sources()
                return
        yield list(newest)

    def _select_by_time(self, events: Sequence[LoggedEvent]) -> Sequence[LoggedEvent]:
        """Return the events within the requested range of their own times."""
        times = self._missed.event_times
        if times == ANY_TIME:
            return events
        return [event for event in events if is_within(time_of(event.record), times)]

    async def _merge_lost_branches(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        """Yield events, with those of lost branches where their places lie."""
        lost = {
            origin: LostBranchReader(self._log_source, origin, branches)
            for origin, branches in self._missed.lost_branches.items()
        }
        had = self._missed.position
        async for found in self._run_steps():
            events = [e for e in found if e.mark > had.get(e.origin, (0, 0))] if had else found
            begun = 0
            for index, event in enumerate(events) if lost else ():
                if (of_origin := lost.get(event.origin)) is None:
                    continue
                while lost_before := await of_origin.read_before(event.mark):
                    yield events[begun:index]
                    yield lost_before
                    begun = index
            yield events[begun:]
        for of_origin in lost.values():
            while rest := await of_origin.read_before(None):
                yield rest

    async def _run_steps(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        until = self._context.clock.seconds() + self._context.patience
        await self._adapt_steps_to_archive()
        for step in self.steps:
            if self._is_cancelled or not (self._remaining.ranges or self._has_unnamed_origins):
                return
            self.stage = step.source
            async for events in self._read_source(step):
                self.events_by_source[self.stage] += len(events)
                yield events
        if self._error is None:
            # Open ranges end where their sources ended, or at the last known event.
            self._remaining.close_all()
            await self._add_unknown_origins()
        async for events in self._await_unreachable_nodes(until):
            self.events_by_source["logs"] += len(events)
            yield events
        if self._error is None and not self._is_cancelled:
            for last_resort in (
                self._log_source.read_log_ends(),
                self._log_source.read_partial_logs(),
            ):
                async for events in last_resort:
                    self.events_by_source["logs"] += len(events)
                    yield events
        self.stage = ""

    async def _adapt_steps_to_archive(self) -> None:
        """Change the order of the sources by the archive's coverage.

        Without other origins in the archive, logs come first. With several branches of another
        origin, it comes first, as a log or replica holds only one.
        """
        ranges, archive = self._missed.ranges, self._context.archive
        epochs = {after[0] == upto[0] for after, upto in ranges.values() if upto is not None}
        if archive is None or not (self._has_unnamed_origins or False in epochs):
            return
        coverage = await archive.get_coverage({o: after for o, (after, _) in ranges.items()})
        if self._has_unnamed_origins and coverage.is_known and not coverage.other_origins:
            self._has_unnamed_origins = False
            self.steps = plan_steps(ranges, self._sources)
        own = self._context.own_origin
        if any(
            has_branches(each)
            for origin, each in coverage.intervals.items()
            if origin_of(origin) != own
        ):
            self.steps = plan_steps(ranges, self._sources, all_origins=True)

    async def _add_unknown_origins(self) -> None:
        """Add origins that only other nodes know.

        A log may be lost before all of it was archived. Its node is awaited unless all nodes answer
        that the log is lost.
        """
        remote_logs, archive = self._context.remote_logs, self._archive_source
        if remote_logs is None or archive is None or not self._missed.all_origins:
            return
        answers = await remote_logs.survey_origins(None)
        for origin in answers.marks.keys() - self._missed.ranges.keys() - answers.available_logs:
            after = archive.unnamed_origins.get(origin, (0, 0))
            upto = answers.furthest_place(origin)
            if has_places_between(after, upto):
                self._remaining.add_range(origin, after, upto)
                if answers.is_log_lost(origin):
                    self._log_source.mark_log_lost(origin)

    async def _read_source(self, step: PlanStep) -> AsyncIterator[Sequence[LoggedEvent]]:
        try:
            if step.source == "former":
                events = self._log_source.read_previous_node()
            elif step.source == "archive":
                assert self._archive_source is not None
                events = self._archive_source.read_events()
            elif step.source == OWN_LOG:
                events = self._log_source.read_own_log()
            else:
                follows = self.steps[-1].source == "archive"
                events = self._log_source.read_origin_logs(archive_follows=follows)
            async for each in events:
                yield each
        except BrokerError as error:
            if step.source == "archive":
                self._error = error
            self.log.warn(
                "the recovery from {source} failed: {error}", source=step.source, error=error
            )

    async def _await_unreachable_nodes(self, until: float) -> AsyncIterator[Sequence[LoggedEvent]]:
        context = self._context
        while not self._is_cancelled and context.clock.seconds() < until:
            cut_off = self._log_source.unreachable_origins()
            if not cut_off or context.page_exchange is None:
                return
            self.stage = WAITING
            await sleep(context.clock, POLL_INTERVAL)
            if any(context.origin_nodes(origin) for origin in cut_off):
                async for events in self._log_source.read_origin_logs(archive_follows=False):
                    yield events
