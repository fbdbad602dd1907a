"""Events of ranges that the archive lacks: read from logs, and merged into what it has.

A manifest or a file of an archive may be damaged or deleted. The archivers write such a range again
as long as a log has it. Until then a recovery reads the range from the log of its origin, from a
replica, or as the last resort from this node's own log. Only what none of them has is a gap.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final, TypeAlias

import msgpack

from broker.archive.intervals import Interval, merged, without
from broker.delivery.recovery import Missed
from broker.event.place import Mark
from broker.log.records import LoggedEvent
from broker.recovery.context import LOOK_AGAIN, Surroundings
from broker.recovery.log_merge import in_order
from broker.recovery.log_source import FromLogs
from broker.recovery.planner import FEW, Remaining
from broker.recovery.remote_logs import Answers
from broker.replay.engine.contract import Hole

#: ClientId, incarnation and sequence number.
Identity: TypeAlias = tuple[str, int, int]

#: Events inside of what stays missing that are noted, at most: a gap is told around each of them.
MOST_NOTED: Final = 4_096


class MissingEvents:
    """Events that are not in the archive, in their order among those that are."""

    def __init__(self, missed: Missed, around: Surroundings) -> None:
        self._missed = missed
        self._around = around
        self._queues: dict[str, deque[tuple[Identity, LoggedEvent]]] = {}
        self._waiting: set[Identity] = set()
        """Of the events in the queues that are still to come."""
        self._given: set[Identity] = set()
        self._holes: dict[str, list[Interval]] = {}
        self._arrived: dict[str, list[Mark]] = defaultdict(list)
        self._noted = 0
        self._origins: list[str] = []
        """Those of which something is missing."""
        self._answers: Answers | None = None
        """What other nodes have of these."""

    @property
    def holes(self) -> list[Hole]:
        """What nobody had, without the events that arrived all the same."""
        return [
            (origin, *each)
            for origin, intervals in self._holes.items()
            for each in without(intervals, map(_place, self._arrived[origin]))
            if each[0][1] < each[1][1]
        ]

    # ------------------------------------------------------------------ reading logs

    async def gather(self, holes: Sequence[Hole], wait_for: Collection[str], until: float) -> None:
        """Read these ranges from logs. Of origins to `wait_for` a node that can not be reached is
        waited for `until` a time of the clock."""
        of_origin: dict[str, list[Interval]] = defaultdict(list)
        for origin, after, upto in holes:
            of_origin[origin].append((after, upto))
        self._origins = list(of_origin)
        budget = FEW
        for origin, intervals in of_origin.items():
            for after, upto in merged(intervals):
                budget -= upto[1] - after[1]
                if budget < 0:
                    # Too much to be held in memory.
                    self._keep_hole(origin, (after, upto))
                    continue
                patience = until if origin in wait_for else 0.0
                await self._read(origin, after, upto, patience)

    async def _read(self, origin: str, after: Mark, upto: Mark, until: float) -> None:
        left = Remaining({origin: (after, upto)})
        logs = FromLogs(self._missed, self._around, left)
        self._add(origin, await logs.gather())
        while left.ranges and logs.cut_off() and self._around.clock.seconds() < until:
            await self._around.after(LOOK_AGAIN)
            self._add(origin, await logs.gather())
        if left.ranges:
            async for events in logs.scraps(await self._ask_others()):
                self._add(origin, events)
        for _, start, end in logs.holes:
            self._keep_hole(origin, (start, end))
        for start, end_or_none in left.ranges.values():
            self._keep_hole(origin, (start, end_or_none or upto))

    async def _ask_others(self) -> Answers | None:
        others = self._around.others
        if others is not None and self._answers is None:
            self._answers = await others.reached(self._origins)
        return self._answers

    def _keep_hole(self, origin: str, hole: Interval) -> None:
        self._holes.setdefault(origin, []).append(hole)

    def _add(self, origin: str, events: Sequence[LoggedEvent]) -> None:
        queue = self._queues.setdefault(origin, deque())
        for event in events:
            identity = _identity(event)
            if identity not in self._waiting:
                self._waiting.add(identity)
                queue.append((identity, event))

    # ------------------------------------------------------------------ merging

    @property
    def is_empty(self) -> bool:
        """Whether logs had nothing that the archive lacks."""
        return not self._waiting

    def merge_all(self, events: Iterable[LoggedEvent]) -> Iterator[LoggedEvent]:
        """All that the archive has and all that it lacks, in the order of each origin and of each
        publisher."""
        of_origin: dict[str, list[LoggedEvent]] = defaultdict(list)
        for event in events:
            self._waiting.discard(_identity(event))
            self.note(event)
            of_origin[event.origin].append(event)
        for origin, queue in self._queues.items():
            of_origin[origin] += [e for identity, e in queue if identity in self._waiting]
            of_origin[origin].sort(key=attrgetter("mark"))
        self._queues.clear()
        return in_order(of_origin)

    def merge(self, events: Iterable[LoggedEvent]) -> list[LoggedEvent]:
        """The next events of the archive, with those that it lacks before them in the order of
        each origin. A publisher that went to another node may come out of order."""
        found: list[LoggedEvent] = []
        for event in events:
            queue = self._queues.get(event.origin)
            while queue and queue[0][1].mark < event.mark:
                found += self._released(queue)
            identity = _identity(event)
            self._waiting.discard(identity)
            if identity not in self._given:
                self.note(event)
                found.append(event)
        return found

    def rest(self) -> list[LoggedEvent]:
        """Those that lie behind all that the archive has."""
        left: dict[str, list[LoggedEvent]] = {}
        for origin, queue in self._queues.items():
            left[origin] = [e for _ in range(len(queue)) for e in self._released(queue)]
        return list(in_order(left))

    def _released(self, queue: deque[tuple[Identity, LoggedEvent]]) -> list[LoggedEvent]:
        identity, event = queue.popleft()
        if identity not in self._waiting:
            return []
        self._waiting.remove(identity)
        self._given.add(identity)
        return [event]

    def note(self, event: LoggedEvent) -> None:
        """Note an event that arrives from the archive. It may lie inside of what is missing, in
        another file than the one that is damaged."""
        holes = self._holes.get(event.origin, ())
        if self._noted < MOST_NOTED and any(a < event.mark <= upto for a, upto in holes):
            self._noted += 1
            self._arrived[event.origin].append(event.mark)


def _identity(event: LoggedEvent) -> Identity:
    client_id, _, number, incarnation, *_ = msgpack.unpackb(event.record)
    return client_id, incarnation, number


def _place(mark: Mark) -> Interval:
    epoch, offset = mark
    return (epoch, offset - 1), mark
