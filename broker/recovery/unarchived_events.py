"""Reads ranges that the archive lacks from logs, and merges them into a replay."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final, TypeAlias

import msgpack

from broker.archive.interval import Interval, difference, union
from broker.delivery.recovery_contract import RecoveryRequest
from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent
from broker.recovery.context import POLL_INTERVAL, RecoveryContext
from broker.recovery.log_merge import merge_logs
from broker.recovery.log_source import LogSource
from broker.recovery.planner import MAX_LOG_PLACES, RemainingRanges
from broker.recovery.remote_logs import LogSurvey
from broker.replay.engine.contract import MissingRange
from broker.transport.sleep import sleep

EventKey: TypeAlias = tuple[str, int, int]

#: Bound of the recorded events inside missing ranges.
MAX_RECORDED: Final = 4_096


class UnarchivedEvents:
    def __init__(self, missed: RecoveryRequest, context: RecoveryContext) -> None:
        self._missed = missed
        self._context = context
        self._queues: dict[str, deque[tuple[EventKey, LoggedEvent]]] = {}
        self._waiting: set[EventKey] = set()
        self._returned: set[EventKey] = set()
        self._missing: dict[str, list[Interval]] = {}
        self._archived_inside: dict[str, list[Mark]] = defaultdict(list)
        self._recorded = 0
        self._origins: list[str] = []
        self._survey: LogSurvey | None = None

    @property
    def missing_ranges(self) -> list[MissingRange]:
        """Ranges that no source has, without single archived events."""
        return [
            (origin, *each)
            for origin, intervals in self._missing.items()
            for each in difference(intervals, map(_place_interval, self._archived_inside[origin]))
            if each[0][1] < each[1][1]
        ]

    # ------------------------------------------------------------------ reading logs

    async def read_from_logs(
        self, ranges: Sequence[MissingRange], wait_for: Collection[str], until: float
    ) -> None:
        """For origins in `wait_for`, await unreachable nodes `until` a time."""
        of_origin: dict[str, list[Interval]] = defaultdict(list)
        for origin, after, upto in ranges:
            of_origin[origin].append((after, upto))
        self._origins = list(of_origin)
        budget = MAX_LOG_PLACES
        for origin, intervals in of_origin.items():
            for after, upto in union(intervals):
                budget -= upto[1] - after[1]
                if budget < 0:
                    self._add_missing(origin, (after, upto))
                    continue
                patience = until if origin in wait_for else 0.0
                await self._read_range(origin, after, upto, patience)

    async def _read_range(self, origin: str, after: Mark, upto: Mark, until: float) -> None:
        remaining = RemainingRanges({origin: (after, upto)})
        logs = LogSource(self._missed, self._context, remaining)
        self._add_events(origin, await logs.read_all())
        while (
            remaining.ranges
            and logs.unreachable_origins()
            and self._context.clock.seconds() < until
        ):
            await sleep(self._context.clock, POLL_INTERVAL)
            self._add_events(origin, await logs.read_all())
        if remaining.ranges:
            async for events in logs.read_partial_logs(await self._survey_nodes()):
                self._add_events(origin, events)
        for _, start, end in logs.missing_ranges:
            self._add_missing(origin, (start, end))
        for start, end_or_none in remaining.ranges.values():
            self._add_missing(origin, (start, end_or_none or upto))

    async def _survey_nodes(self) -> LogSurvey | None:
        others = self._context.remote_logs
        if others is not None and self._survey is None:
            flows = (flow for origin in self._origins for flow in self._context.flows_of(origin))
            origins = list(dict.fromkeys([*self._origins, *flows]))
            self._survey = await others.survey_origins(origins)
        return self._survey

    def _add_missing(self, origin: str, missing: Interval) -> None:
        self._missing.setdefault(origin, []).append(missing)

    def _add_events(self, origin: str, events: Sequence[LoggedEvent]) -> None:
        queue = self._queues.setdefault(origin, deque())
        for event in events:
            identity = _event_key(event)
            if identity not in self._waiting:
                self._waiting.add(identity)
                queue.append((identity, event))

    # ------------------------------------------------------------------ merging

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    def merge_all(self, events: Iterable[LoggedEvent]) -> Iterator[LoggedEvent]:
        """Merge with all events of the archive, in the order of each origin and each publisher."""
        of_origin: dict[str, list[LoggedEvent]] = defaultdict(list)
        for event in events:
            self._waiting.discard(_event_key(event))
            self.record_event(event)
            of_origin[event.origin].append(event)
        for origin, queue in self._queues.items():
            of_origin[origin] += [e for identity, e in queue if identity in self._waiting]
            of_origin[origin].sort(key=attrgetter("mark"))
        self._queues.clear()
        return merge_logs(of_origin)

    def merge_batch(self, events: Iterable[LoggedEvent]) -> list[LoggedEvent]:
        """Merge with the archive's next events, in the order of each origin only."""
        found: list[LoggedEvent] = []
        for event in events:
            queue = self._queues.get(event.origin)
            while queue and queue[0][1].mark < event.mark:
                found += self._pop_event(queue)
            identity = _event_key(event)
            self._waiting.discard(identity)
            if identity not in self._returned:
                self.record_event(event)
                found.append(event)
        return found

    def take_rest(self) -> list[LoggedEvent]:
        """Return the events behind all archived ones."""
        remaining: dict[str, list[LoggedEvent]] = {}
        for origin, queue in self._queues.items():
            remaining[origin] = [e for _ in range(len(queue)) for e in self._pop_event(queue)]
        return list(merge_logs(remaining))

    def _pop_event(self, queue: deque[tuple[EventKey, LoggedEvent]]) -> list[LoggedEvent]:
        identity, event = queue.popleft()
        if identity not in self._waiting:
            return []
        self._waiting.remove(identity)
        self._returned.add(identity)
        return [event]

    def record_event(self, event: LoggedEvent) -> None:
        """Record an archived event inside a missing range."""
        ranges = self._missing.get(event.origin, ())
        if self._recorded < MAX_RECORDED and any(a < event.mark <= upto for a, upto in ranges):
            self._recorded += 1
            self._archived_inside[event.origin].append(event.mark)


def _event_key(event: LoggedEvent) -> EventKey:
    client_id, _, number, incarnation, *_ = msgpack.unpackb(event.record)
    return client_id, incarnation, number


def _place_interval(mark: Mark) -> Interval:
    epoch, offset = mark
    return (epoch, offset - 1), mark
