"""The times of requests for one missing range (DCP D43, D44, D98)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

import attrs

from plugins.dcp.parent_path import ParentPath, SmoothedTime

_MOST_INTERVAL: Final = 1.0
#: Of the patience: so many requests and answers are lost in a row seldom, even of one parent.
_PATIENCE_SHARE: Final = 1 / 8


@attrs.frozen(kw_only=True)
class NackSettings:
    """Times in seconds."""

    patience: float = 2.0
    """After this time the next range goes on, and the missing one is left to the log."""
    least_fast: float = 0.005
    least_slow: float = 0.05
    fixed_fast: float = 0.0
    """More than 0: it replaces the measured delay. So does `fixed_slow`."""
    fixed_slow: float = 0.0


class NackTimer:
    """Fast if no parent can bring the range any more, else slow; then with growing intervals."""

    def __init__(self, parents: Mapping[Hashable, ParentPath], settings: NackSettings) -> None:
        self.gap = SmoothedTime()
        """Time between two ranges of the sequence."""
        self._parents = parents
        self._settings = settings
        self._missing_since: float | None = None
        self._noticed_at = 0.0
        self._certain_since: float | None = None
        self._nack_at: float | None = None
        self._interval = 0.0
        self._further_since: float | None = None
        self._requests = 0

    @property
    def is_running(self) -> bool:
        return self._missing_since is not None

    @property
    def is_first(self) -> bool:
        """True from the first request to the second one."""
        return self._requests == 1

    def stop(self) -> None:
        self._missing_since = None

    def start(self, now: float, since: float) -> None:
        """Note a missing range. The patience with it began at `since`."""
        self._noticed_at, self._missing_since = now, since
        self._certain_since = self._nack_at = None
        self._further_since, self._interval = None, 0.0
        self._requests = 0

    def set_certain(self, now: float) -> None:
        """Note that no parent brings the range without a request."""
        if self._certain_since is None:
            self._certain_since = now

    def note_further(self, now: float) -> None:
        """Note that a further range is missing: it does not wait for the next repetition."""
        if self._further_since is None:
            self._further_since = now

    @property
    def given_up_at(self) -> float:
        assert self._missing_since is not None
        return self._missing_since + self._settings.patience

    def next_timeout(self) -> float | None:
        if self._missing_since is None:
            return None
        return min(self.given_up_at, self._next_nack_at())

    def take_due(self, now: float) -> bool:
        """Return True once when a request is to be sent."""
        if now < self._next_nack_at():
            return False
        if self._nack_at is None or now >= self._nack_at + self._interval:
            answer_time = self._answer_time()
            doubled = 2 * self._interval if self._interval else answer_time
            most = max(answer_time, self._settings.patience * _PATIENCE_SHARE)
            self._interval = min(_MOST_INTERVAL, most, doubled)
        self._nack_at, self._further_since = now, None
        self._requests += 1
        return True

    def _next_nack_at(self) -> float:
        assert self._missing_since is not None
        is_certain = self._certain_since is not None
        if self._nack_at is not None:
            repeated_at = self._nack_at + self._interval
            if self._further_since is None:
                return repeated_at
            delay = self._fast_delay() if is_certain else self._slow_delay()
            return min(repeated_at, max(self._further_since, self._nack_at) + delay)
        slow = self._noticed_at + self._slow_delay()
        if self._certain_since is None:
            return slow
        return min(slow, self._certain_since + self._fast_delay())

    def _fast_delay(self) -> float:
        settings = self._settings
        reordering = max((each.reordering.mean for each in self._parents.values()), default=0.0)
        return settings.fixed_fast or max(settings.least_fast, 4 * reordering)

    def _slow_delay(self) -> float:
        settings = self._settings
        if settings.fixed_slow:
            return settings.fixed_slow
        skew = max((each.skew.late_after for each in self._parents.values()), default=0.0)
        delay = max(settings.least_slow, self._answer_time(), 2 * self.gap.mean, skew)
        # Time for several requests is left.
        return min(delay, settings.patience / 4)

    def _answer_time(self) -> float:
        """Return the seconds in which each parent would have answered a request."""
        trips = [path.round_trip for path in self._parents.values()]
        longest = max((each.smoothed + 4 * each.variation for each in trips), default=0.0)
        return max(self._settings.least_fast, longest)
