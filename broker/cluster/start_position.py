"""Where a node begins with an origin of which it has heard nothing before (X6, X8).

Who begins to want something lacks nothing of what was published before, wherever that was. But
something else may have waited here for longer: then what a node that is new, or has lost its disk,
logged before it was linked to others belongs to it, and so it comes from the very first event.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from itertools import islice

import attrs

from broker.event.origin import born
from broker.event.place import Mark

#: Ms by which clocks of nodes may differ. An origin that sends something is taken to be younger
#: than what waits here where it is not older by more than this: rather some events of before than
#: not all.
MAX_CLOCK_SKEW = 600_000
_NOWHERE: Mark = (0, 0)
_END: Mark = (1 << 63, 1 << 63)


@attrs.define
class _ResumedOrigin:
    """An origin that is not known here, at a place of which something goes on."""

    origin: str
    lowest: Mark
    """Of the places, also of what has gone meanwhile."""
    key_count: int = 0
    """How many name it."""


@attrs.frozen
class _ResumedKey:
    since: int
    origins: tuple[_ResumedOrigin, ...]


class StartPositions:
    """What waits here, by its key, in the order of time. It does not matter how much that is."""

    def __init__(self, wall_clock: Callable[[], int]) -> None:
        """`wall_clock` gives ms since 1970."""
        self._wall_clock = wall_clock
        self._added_at: dict[Hashable, int] = {}
        """Since when: what goes on at no place of an origin that is not known here."""
        self._resumed_keys: dict[Hashable, _ResumedKey] = {}
        self._resumed_origins: dict[str, _ResumedOrigin] = {}

    @property
    def resume_marks(self) -> dict[str, Mark]:
        """The origins at places of which something goes on, and the lowest of these."""
        return {each.origin: each.lowest for each in self._resumed_origins.values()}

    def add_key(self, key: Hashable, position: Mapping[str, Mark] | None = None) -> None:
        """The key waits from now on, if it does not yet; with a position it goes on there."""
        since = self._time_of(key)
        if since is not None and not position:
            return
        self.remove_key(key)
        if since is None:
            since = self._wall_clock()
        if position:
            origins = tuple(self._resume_origin(origin, mark) for origin, mark in position.items())
            self._resumed_keys[key] = _ResumedKey(since, origins)
        else:
            self._added_at[key] = since

    def remove_key(self, key: Hashable) -> None:
        """The key waits no more."""
        self._added_at.pop(key, None)
        resumed = self._resumed_keys.pop(key, None)
        for each in () if resumed is None else resumed.origins:
            each.key_count -= 1
            if not each.key_count:
                del self._resumed_origins[each.origin]

    def start_of(self, origin: str, mark: Mark) -> Mark:
        """Where the node begins with an origin, given where that is for who did not wait."""
        # Before the first event there is nothing.
        return self._lowest_start(origin, mark, MAX_CLOCK_SKEW) if mark[1] else mark

    def start_of_dead(self, origin: str) -> Mark | None:
        """From where on something here lacks an origin that does not speak for itself, since its
        node is gone, say: only if it is younger, whatever clocks do. None: nothing does."""
        first = self._lowest_start(origin, _END, 0)
        return None if first == _END else first

    def _lowest_start(self, origin: str, mark: Mark, skew: int) -> Mark:
        resumed = self._resumed_origins.get(origin)
        oldest = list(islice(self._added_at.values(), 1))
        if resumed is None or resumed.key_count < len(self._resumed_keys):
            # Some of these do not name it: the first one stands for them.
            oldest += [each.since for each in islice(self._resumed_keys.values(), 1)]
        if any(since <= born(origin) + skew for since in oldest):
            return _NOWHERE
        return mark if resumed is None else min(mark, resumed.lowest)

    def _time_of(self, key: Hashable) -> int | None:
        resumed = self._resumed_keys.get(key)
        return self._added_at.get(key) if resumed is None else resumed.since

    def _resume_origin(self, origin: str, mark: Mark) -> _ResumedOrigin:
        resumed = self._resumed_origins.setdefault(origin, _ResumedOrigin(origin, mark))
        resumed.lowest = min(mark, resumed.lowest)
        resumed.key_count += 1
        return resumed
