"""The archive as a source of one recovery."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import islice

from twisted.logger import Logger

from broker.archive.interval import difference
from broker.delivery.recovery_contract import MarkRange, RecoveryRequest
from broker.errors import (
    ArchiveUnavailable,
    Closed,
    EngineUnavailable,
    NotConnected,
    Overloaded,
)
from broker.event.flow import origin_of
from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent
from broker.recovery.archive_access import ArchiveAccess, Replay
from broker.recovery.context import POLL_INTERVAL, RecoveryContext
from broker.recovery.log_source import BATCH_EVENTS
from broker.recovery.planner import RemainingRanges, missing_ranges
from broker.recovery.unarchived_events import UnarchivedEvents
from broker.replay.engine.contract import MissingRange
from broker.replay.request import ReplayRequest
from broker.transport.backoff import Backoff
from broker.transport.sleep import sleep

MAX_ATTEMPTS = 3
#: Seconds between two attempts.
MAX_PAUSE = 8.0
#: Bound of `last`: these events are held in memory.
MAX_LAST = 100_000
#: Bound of replayed events held to merge unarchived ones in publisher order.
MAX_HELD_BYTES = 32 << 20


class ArchiveSource:
    """Replays the remaining ranges once they are archived, and advances `remaining`."""

    log = Logger()

    def __init__(
        self,
        missed: RecoveryRequest,
        context: RecoveryContext,
        archive: ArchiveAccess,
        remaining: RemainingRanges,
    ) -> None:
        self._missed = missed
        self._context = context
        self._archive = archive
        self._remaining = remaining
        # An event may also have a place that the client has passed.
        self._already_received: dict[str, MarkRange] = {
            o: (mark, mark) for o, mark in missed.position.items()
        }
        if missed.all_origins:
            # All origins are requested, so complete ranges must be excluded.
            self._already_received |= {
                o: (upto, upto) for o, (_, upto) in missed.ranges.items() if upto is not None
            }
        self._replay: Replay | None = None
        self._is_cancelled = False
        self._unarchived: UnarchivedEvents | None = None
        """For the missing ranges of the newest replay."""
        self._earlier_missing: list[MissingRange] = []
        """Missing ranges of earlier replays, up to where these came."""
        self._has_awaited_repair = False
        self._repairable: frozenset[str] = frozenset()
        self._deadline = 0.0
        self.beyond: dict[str, Mark] = {}
        """By origin the end of its archived events behind the known end."""
        self.unnamed_origins: Mapping[str, Mark] = {}
        """The same for origins without a range."""

    @property
    def missing_ranges(self) -> Sequence[MissingRange]:
        """Missing ranges between archived ones that no log has."""
        return [
            *self._earlier_missing,
            *([] if self._unarchived is None else self._unarchived.missing_ranges),
        ]

    @property
    def scanned_rows(self) -> tuple[int, int]:
        return (0, 0) if self._replay is None else self._replay.scanned_rows

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._replay is not None:
            self._replay.cancel()

    async def read_events(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        """Raises `BrokerError`."""
        self._deadline = self._context.clock.seconds() + self._context.patience
        await self._await_newest_events()
        if not (self._remaining.ranges or self._missed.all_origins):
            return
        ends, until = 0, math.inf
        backoff = Backoff(POLL_INTERVAL, MAX_PAUSE, jitter=False)
        while not self._is_cancelled:
            has_yielded = False
            try:
                async for events in self._replay_events():
                    has_yielded = True
                    yield events
                return
            except (NotConnected, Closed) as error:
                ends += 1
                if ends == MAX_ATTEMPTS or (has_yielded and self._missed.last):
                    raise
                self.log.warn("the replay is restarted: {error}", error=error)
            except (Overloaded, ArchiveUnavailable, EngineUnavailable) as error:
                now = self._context.clock.seconds()
                if has_yielded or until == math.inf:
                    until = now + self._context.patience
                    backoff.report_progress()
                if now >= until or (has_yielded and self._missed.last):
                    raise
                self.log.info("the replay is retried later: {error}", error=error)
                await sleep(self._context.clock, backoff.next_wait(now))

    def _start_replay(self) -> Replay:
        missed, remaining = self._missed, self._remaining.ranges
        requested = self._requested_ranges()
        ends = {
            origin: upto or missed.known_ends.get(origin) for origin, (_, upto) in remaining.items()
        }
        self._replay = self._archive.replays.start_replay(
            ReplayRequest(
                pattern=missed.pattern.text,
                query=missed.query.text,
                namespaces=dict(missed.query.namespaces),
                clearance=missed.clearance,
                ranges=requested,
                others=missed.all_origins,
                from_ms=missed.from_ms,
                until_ms=missed.until_ms,
                event_times=missed.event_times,
                last=min(missed.last, MAX_LAST),
                known={o: end for o, end in ends.items() if end and requested[o][1] is None},
                holder=missed.holder,
            )
        )
        return self._replay

    async def _replay_events(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        try:
            replay = self._start_replay()
            events = await replay.next_events()
            if replay.missing_ranges() and not self._has_awaited_repair:
                # Nodes archive such events now. Later they could not come in order.
                self._has_awaited_repair = True
                if await self._await_repair(replay.missing_ranges()):
                    replay.cancel()
                    replay = self._start_replay()
                    events = await replay.next_events()
            unarchived = await self._read_unarchived(replay.missing_ranges())
            async for found in self._merge_unarchived(replay, events, unarchived):
                yield found
                reached = _last_marks(found)
                self._record_beyond(reached)
                unknown = reached.keys() - self._missed.ranges.keys()
                self._already_received |= {origin: (reached[origin], None) for origin in unknown}
                self._remaining.advance(reached)
        finally:
            self._replay = None
        self._record_beyond(replay.end_marks())
        self.unnamed_origins = {
            origin: mark
            for origin, mark in replay.end_marks().items()
            if origin not in self._missed.ranges
        }
        self._remaining.advance(replay.end_marks())
        self._remaining.close_all()

    @staticmethod
    async def _merge_unarchived(
        replay: Replay, events: Sequence[LoggedEvent], unarchived: UnarchivedEvents
    ) -> AsyncIterator[Sequence[LoggedEvent]]:
        held: list[LoggedEvent] = []
        size = 0
        while events and not unarchived.is_empty and size < MAX_HELD_BYTES:
            held += events
            size += sum(event.size for event in events)
            events = await replay.next_events()
        if not events:
            whole = unarchived.merge_all(held)
            while run := list(islice(whole, BATCH_EVENTS)):
                yield run
            return
        for some in (held, events):
            yield unarchived.merge_batch(some)
        while events := await replay.next_events():
            yield unarchived.merge_batch(events)
        yield unarchived.take_rest()

    async def _read_unarchived(self, ranges: Sequence[MissingRange]) -> UnarchivedEvents:
        """Record missing ranges at once: this replay may break off."""
        unarchived = UnarchivedEvents(self._missed, self._context)
        await unarchived.read_from_logs(ranges, self._repairable, self._deadline)
        requested = self._requested_ranges()
        begins = {origin: after for origin, (after, upto) in requested.items() if after != upto}
        self._earlier_missing = [
            (origin, after, end)
            for origin, after, upto in self.missing_ranges
            if after < (end := min(upto, begins.get(origin, upto)))
        ]
        self._unarchived = unarchived
        return unarchived

    def _requested_ranges(self) -> dict[str, MarkRange]:
        """Return the remaining ranges, open if an origin may have died with unknown events."""
        requested = self._remaining.ranges
        if self._missed.is_open_ended:
            requested = {
                origin: (
                    max(after, self.beyond.get(origin, after)),
                    self._archive_end(origin, upto),
                )
                for origin, (after, upto) in requested.items()
            }
            for origin, mark in self.beyond.items():
                requested.setdefault(origin, (mark, None))
        return {**self._already_received, **requested}

    def _archive_end(self, origin: str, upto: Mark | None) -> Mark | None:
        return upto if origin_of(origin) == self._context.own_origin else None

    def _record_beyond(self, reached: Mapping[str, Mark]) -> None:
        if not self._missed.is_open_ended:
            return
        for origin, mark in reached.items():
            known = self._missed.ranges.get(origin)
            if (
                known is not None
                and self._archive_end(origin, known[1]) is None
                and known[1] is not None
            ):
                self.beyond[origin] = max(mark, self.beyond.get(origin, mark))

    async def _await_newest_events(self) -> None:
        """Wait for the newest events and rewritten files, at most `max_lag` s."""
        archive, context = self._archive, self._context
        until = context.clock.seconds() + archive.max_lag
        archive.flush_soon()
        while not self._is_cancelled:
            remaining = self._remaining.ranges
            coverage = await archive.get_coverage(
                {origin: after for origin, (after, _) in remaining.items()}
            )
            covered = coverage.intervals
            incomplete = [
                origin
                for origin, (after, upto) in remaining.items()
                if origin in coverage.lost_ends
                or missing_ranges(after, upto, covered.get(origin, ()))
            ]
            are_there = all(
                upto is None
                or max((end for _, end in covered.get(origin, ())), default=after) >= upto
                for origin, (after, upto) in remaining.items()
            )
            is_healing = not coverage.repairable.isdisjoint(incomplete)
            self._repairable = coverage.repairable | (remaining.keys() - covered.keys())
            if (are_there and not is_healing) or context.clock.seconds() >= until:
                empty = [o for o, intervals in covered.items() if not intervals]
                self._remaining.close_ranges(o for o in empty if o not in coverage.lost_ends)
                self._has_awaited_repair = is_healing
                return
            await sleep(context.clock, POLL_INTERVAL)

    async def _await_repair(self, damaged: Sequence[MissingRange]) -> bool:
        """Wait at most `max_lag` s. Returns whether some ranges are archived again."""
        archive, context = self._archive, self._context
        until = context.clock.seconds() + archive.max_lag
        archive.flush_soon()
        while not self._is_cancelled:
            coverage = await archive.get_coverage({origin: after for origin, after, _ in damaged})
            remaining = [
                origin
                for origin, after, upto in damaged
                if difference([(after, upto)], coverage.intervals.get(origin, ()))
            ]
            # A silent archiver may be archiving.
            self._repairable = frozenset(
                origin
                for origin, _, _ in damaged
                if origin in coverage.repairable
                or origin not in coverage.intervals
                or origin not in remaining
            )
            if not self._repairable.isdisjoint(remaining) and context.clock.seconds() < until:
                await sleep(context.clock, POLL_INTERVAL)
            else:
                return len(remaining) < len(damaged)
        return False


def _last_marks(events: Sequence[LoggedEvent]) -> dict[str, Mark]:
    return {event.origin: event.mark for event in events}
