"""Virtual time: calls in the order of their times."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

#: Of one run; an endless exchange of packets has more.
MOST_CALLS = 1_000_000


class Loop:
    """Calls at one time run in the order in which they were made."""

    def __init__(self) -> None:
        self.now = 0.0
        self._calls: list[tuple[float, int, Callable[..., object], tuple[object, ...]]] = []
        self._count = 0

    def call_at(self, time: float, function: Callable[..., object], *args: object) -> None:
        heappush(self._calls, (max(time, self.now), self._count, function, args))
        self._count += 1

    def call_later(self, delay: float, function: Callable[..., object], *args: object) -> None:
        self.call_at(self.now + delay, function, *args)

    def run_until(self, end: float) -> None:
        calls = self._calls
        while calls and calls[0][0] <= end:
            if self._count > MOST_CALLS:
                raise RuntimeError(f"{MOST_CALLS} calls until {self.now}: the run does not end")
            self.now, _, function, args = heappop(calls)
            function(*args)
        self.now = end
