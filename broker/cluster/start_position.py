"""Start positions for unknown origins (X6, X8).

Interest may be older than an origin: a new node, or one that lost its disk, logs events before its
first link. Then the origin is read from its first event.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from itertools import islice

import attrs

from broker.event.flow import origin_of
from broker.event.origin import origin_start_ms
from broker.event.place import Mark

#: Ms between the clocks of nodes: additional events are better than missing ones.
MAX_CLOCK_SKEW = 600_000
_NOWHERE: Mark = (0, 0)
END: Mark = (1 << 63, 1 << 63)


@attrs.define
class _ResumedOrigin:
    origin: str
    lowest: Mark
    """Removed keys still count."""
    key_count: int = 0


@attrs.frozen
class _ResumedKey:
    since: int
    origins: tuple[_ResumedOrigin, ...]


class StartPositions:
    """Keys of interest, in order of time. Time per call does not depend on their number, but for a
    position that comes behind those of later keys."""

    def __init__(self, wall_clock: Callable[[], int]) -> None:
        self._wall_clock = wall_clock
        self._added_at: dict[Hashable, int] = {}
        """Ms since 1970 of each key without resume positions."""
        self._resumed_keys: dict[Hashable, _ResumedKey] = {}
        self._resumed_origins: dict[str, _ResumedOrigin] = {}

    @property
    def resume_marks(self) -> dict[str, Mark]:
        """Lowest marks, by unknown origin."""
        return {each.origin: each.lowest for each in self._resumed_origins.values()}

    def add_key(self, key: Hashable, position: Mapping[str, Mark] | None = None) -> None:
        """Add a new key. With a position, it resumes there."""
        since = self._time_of(key)
        if since is not None and not position:
            return
        self.remove_key(key)
        if since is None:
            since = self._wall_clock()
        if position:
            origins = tuple(self._resume_origin(origin, mark) for origin, mark in position.items())
            self._insert_resumed(key, _ResumedKey(since, origins))
        else:
            self._added_at[key] = since

    def remove_key(self, key: Hashable) -> None:
        self._added_at.pop(key, None)
        resumed = self._resumed_keys.pop(key, None)
        for each in () if resumed is None else resumed.origins:
            each.key_count -= 1
            if not each.key_count:
                del self._resumed_origins[each.origin]

    def start_of(self, origin: str, mark: Mark) -> Mark:
        """Return the mark after which to read an origin: `mark` without older interest."""
        # The origin has no earlier events.
        return self._lowest_start(origin, mark, MAX_CLOCK_SKEW) if mark[1] else mark

    def start_of_dead(self, origin: str) -> Mark | None:
        """Return None for an origin without interest. Unlike `start_of` it allows no clock skew."""
        first = self._lowest_start(origin, END, 0)
        return None if first == END else first

    def _lowest_start(self, origin: str, mark: Mark, skew: int) -> Mark:
        resumed = self._resumed_origins.get(origin)
        oldest = list(islice(self._added_at.values(), 1))
        if resumed is None or resumed.key_count < len(self._resumed_keys):
            # Not all resumed keys name this origin.
            oldest += [each.since for each in islice(self._resumed_keys.values(), 1)]
        if any(since <= origin_start_ms(origin_of(origin)) + skew for since in oldest):
            return _NOWHERE
        return mark if resumed is None else min(mark, resumed.lowest)

    def _insert_resumed(self, key: Hashable, resumed: _ResumedKey) -> None:
        last = next(reversed(self._resumed_keys.values()), resumed)
        self._resumed_keys[key] = resumed
        if resumed.since < last.since:
            # The position of an earlier key comes later.
            self._resumed_keys = dict(
                sorted(self._resumed_keys.items(), key=lambda each: each[1].since)
            )

    def _time_of(self, key: Hashable) -> int | None:
        resumed = self._resumed_keys.get(key)
        return self._added_at.get(key) if resumed is None else resumed.since

    def _resume_origin(self, origin: str, mark: Mark) -> _ResumedOrigin:
        resumed = self._resumed_origins.setdefault(origin, _ResumedOrigin(origin, mark))
        resumed.lowest = min(mark, resumed.lowest)
        resumed.key_count += 1
        return resumed
