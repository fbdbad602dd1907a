"""Order by time stamp: bursts of concurrent events, one behind the other, each in declared order.

The earliest event that is not out yet opens a burst; what the constraint calls concurrent with
that event belongs to it. So being concurrent is no matter of pairs, and every set of events has
exactly one order.
"""

from __future__ import annotations

import bisect
import math
from typing import Generic, TypeVar

import attrs

from broker.event.merging.held import Held, Key
from broker.event.merging.vocabulary import Constraint

T = TypeVar("T")


@attrs.frozen
class StreamTime:
    """What the publishers of a merge have passed (ms): nothing earlier of them is to come."""

    least: float
    laggard: str = ""
    """Whose time that is."""
    others_least: float = math.inf
    """The least time of all but that one."""

    def without(self, held: Held[T]) -> float:
        """The least time of all but the event's own publisher."""
        own = held.linked.event_id.client_id == self.laggard
        return self.others_least if own else self.least


#: Nothing more will come.
OVER = StreamTime(math.inf)


class Bursts(Generic[T]):
    """The events of one merge that are held, and how far it has got."""

    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint
        self._later: list[tuple[int, int, Held[T]]] = []
        """(time stamp, serial, event), sorted: what is behind the current burst."""
        self._current: list[tuple[Key, int, Held[T]]] = []
        """(key, serial, event), sorted: what is left of the burst that was begun."""
        self._first_lane: list[tuple[Key, int, Held[T]]] = []
        """(key, serial, event), sorted: those of the first entry of the order, once more."""
        self._burst: tuple[int, int] | None = None
        self._last: Key | None = None

    def __len__(self) -> int:
        return len(self._later) + len(self._current)

    def hold(self, held: Held[T]) -> bool:
        """Take an event; False if it is late, and is not held."""
        if self._burst is None or held.time > self._burst[1]:
            bisect.insort(self._later, (held.time, held.serial, held))
        elif held.time < self._burst[0] or (self._last is not None and held.key < self._last):
            return False
        else:
            bisect.insort(self._current, (held.key, held.serial, held))
        if held.key[0] == 0:
            bisect.insort(self._first_lane, (held.key, held.serial, held))
        return True

    def release(self, stream_time: StreamTime) -> list[Held[T]]:
        """The events that nothing can come before any more."""
        released: list[Held[T]] = []
        while len(self) and self._end() < stream_time.least:
            if not self._current:
                self._begin()
            released += self._give(len(self._current))
        while len(self) and self._leads(stream_time):
            if not self._current:
                self._begin()
            released += self._give(1)
        return released

    def _leads(self, stream_time: StreamTime) -> bool:
        """Whether the next event goes before all that its burst may still get.

        So does one of the first lane when the other publishers have passed its time stamp: its
        own publisher's next one comes behind it. A single feed waits for nobody, then.
        """
        while self._first_lane and self._first_lane[0][2].out:
            del self._first_lane[0]
        if not self._first_lane:
            return False
        first = self._first_lane[0][2]
        return first.time <= self._end() and stream_time.without(first) > first.time

    def force(self, held: Held[T]) -> list[Held[T]]:
        """The event and all that are before it in the order; they may be no whole burst."""
        released: list[Held[T]] = []
        while True:
            if not self._current:
                self._begin()
            if self._burst is not None and held.time <= self._burst[1]:
                upto = bisect.bisect_right(self._current, (held.key, held.serial, held))
                return released + self._give(upto)
            released += self._give(len(self._current))

    def _end(self) -> float:
        """The last time stamp of the next burst."""
        if self._current and self._burst is not None:
            return self._burst[1]
        return self._constraint.burst(self._later[0][0])[1]

    def _begin(self) -> None:
        self._burst = self._constraint.burst(self._later[0][0])
        count = bisect.bisect_right(self._later, (self._burst[1], math.inf))
        self._current = sorted((held.key, serial, held) for _, serial, held in self._later[:count])
        del self._later[:count]

    def _give(self, count: int) -> list[Held[T]]:
        given = [held for _, _, held in self._current[:count]]
        del self._current[:count]
        for held in given:
            held.out = True
        self._last = given[-1].key
        return given
