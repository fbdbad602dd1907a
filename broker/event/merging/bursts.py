"""Order by time stamp: bursts of concurrent events, each in declared order.

The earliest held event opens a burst; the constraint defines its end. Concurrency is not pairwise,
so each set of events has exactly one order.
"""

from __future__ import annotations

import bisect
import math
from typing import Generic, TypeVar

import attrs

from broker.event.merging.held_event import HeldEvent, SortKey
from broker.event.merging.vocabulary import Constraint

T = TypeVar("T")


@attrs.frozen
class StreamTime:
    """Times (ms) that publishers have passed: no earlier event will come."""

    least: float
    laggard: str = ""
    """Publisher with the least time."""
    others_least: float = math.inf
    """Least time of all other publishers."""

    def without_publisher_of(self, held: HeldEvent[T]) -> float:
        own = held.linked.event_id.client_id == self.laggard
        return self.others_least if own else self.least


#: No more events will come.
END_OF_STREAMS = StreamTime(math.inf)


class Bursts(Generic[T]):
    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint
        self._later: list[tuple[int, int, HeldEvent[T]]] = []
        """(time stamp, serial, event), sorted: events behind the current burst."""
        self._current: list[tuple[SortKey, int, HeldEvent[T]]] = []
        """(key, serial, event), sorted: the rest of the current burst."""
        self._first_lane: list[tuple[SortKey, int, HeldEvent[T]]] = []
        """(key, serial, event), sorted: events of the order's first entry, listed a second time."""
        self._burst: tuple[int, int] | None = None
        self._last: SortKey | None = None

    def __len__(self) -> int:
        return len(self._later) + len(self._current)

    def add(self, held: HeldEvent[T]) -> bool:
        """Return False for a late event, which is not held."""
        if self._burst is None or held.time > self._burst[1]:
            bisect.insort(self._later, (held.time, held.serial, held))
        elif held.time < self._burst[0] or (self._last is not None and held.key < self._last):
            return False
        else:
            bisect.insort(self._current, (held.key, held.serial, held))
        if held.key[0] == 0:
            bisect.insort(self._first_lane, (held.key, held.serial, held))
        return True

    def release_ready(self, stream_time: StreamTime) -> list[HeldEvent[T]]:
        """Release the events before which no other can come."""
        released: list[HeldEvent[T]] = []
        while len(self) and self._burst_end() < stream_time.least:
            if not self._current:
                self._start_burst()
            released += self._release(len(self._current))
        while len(self) and self._is_first_lane_ready(stream_time):
            if not self._current:
                self._start_burst()
            released += self._release(1)
        return released

    def _is_first_lane_ready(self, stream_time: StreamTime) -> bool:
        """Return True if the next event precedes all that its burst may still get.

        The other publishers have passed its time stamp; its own publisher's next event follows it.
        So a single feed never waits.
        """
        while self._first_lane and self._first_lane[0][2].is_released:
            del self._first_lane[0]
        if not self._first_lane:
            return False
        first = self._first_lane[0][2]
        return (
            first.time <= self._burst_end() and stream_time.without_publisher_of(first) > first.time
        )

    def release_through(self, held: HeldEvent[T]) -> list[HeldEvent[T]]:
        """Release the event and all before it."""
        released: list[HeldEvent[T]] = []
        while True:
            if not self._current:
                self._start_burst()
            if self._burst is not None and held.time <= self._burst[1]:
                upto = bisect.bisect_right(self._current, (held.key, held.serial, held))
                return released + self._release(upto)
            released += self._release(len(self._current))

    def _burst_end(self) -> float:
        if self._current and self._burst is not None:
            return self._burst[1]
        return self._constraint.burst_bounds(self._later[0][0])[1]

    def _start_burst(self) -> None:
        self._burst = self._constraint.burst_bounds(self._later[0][0])
        count = bisect.bisect_right(self._later, (self._burst[1], math.inf))
        self._current = sorted((held.key, serial, held) for _, serial, held in self._later[:count])
        del self._later[:count]

    def _release(self, count: int) -> list[HeldEvent[T]]:
        given = [held for _, _, held in self._current[:count]]
        del self._current[:count]
        for held in given:
            held.is_released = True
        self._last = given[-1].key
        return given
