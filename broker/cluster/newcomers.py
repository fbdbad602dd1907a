"""Where a node begins with an origin of which it has heard nothing before (X6, X8).

Who begins to want something lacks nothing of what was published before, wherever that was. But
something else may have waited here for longer: then what a node that is new, or has lost its disk,
logged before it was linked to others belongs to it, and so it comes from the very first event.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import attrs

from broker.event.origin import born
from broker.event.place import Mark

#: Ms by which clocks of nodes may differ. An origin that sends something is taken to be younger
#: than what waits here where it is not older by more than this: rather some events of before than
#: not all.
CLOCKS_DIFFER = 600_000
_NOWHERE: Mark = (0, 0)
_END: Mark = (1 << 63, 1 << 63)


@attrs.frozen
class _Waiting:
    since: int
    """Ms since 1970."""
    position: Mapping[str, Mark]
    """Where it goes on, of origins that are not known here."""

    def begins(self, origin: str, mark: Mark, differ: int) -> Mark:
        if origin in self.position:
            return min(mark, self.position[origin])
        return _NOWHERE if self.since <= born(origin) + differ else mark


class Newcomers:
    """What waits here, by its key."""

    def __init__(self, wall_clock: Callable[[], int]) -> None:
        """`wall_clock` gives ms since 1970."""
        self._wall_clock = wall_clock
        self._waiting: dict[Hashable, _Waiting] = {}
        """What goes on at no place of an origin that is not known here: the one that has waited for
        the longest comes first, and stands for all."""
        self._going_on: dict[Hashable, _Waiting] = {}

    @property
    def named(self) -> dict[str, Mark]:
        """The origins at a place of which something goes on, and the places, one of each."""
        return {o: mark for each in self._going_on.values() for o, mark in each.position.items()}

    def wait(self, key: Hashable, position: Mapping[str, Mark] | None = None) -> None:
        """The key waits from now on, if it does not yet; with a position it goes on there."""
        known = self._waiting.get(key) or self._going_on.get(key)
        if known is not None and not position:
            return
        since = self._wall_clock() if known is None else known.since
        self.forget(key)
        kept = self._going_on if position else self._waiting
        kept[key] = _Waiting(since, position or {})

    def forget(self, key: Hashable) -> None:
        """The key waits no more."""
        self._waiting.pop(key, None)
        self._going_on.pop(key, None)

    def begins(self, origin: str, mark: Mark) -> Mark:
        """Where the node begins with an origin, given where that is for who did not wait."""
        # Before the first event there is nothing.
        return self._first(origin, mark, CLOCKS_DIFFER) if mark[1] else mark

    def lacks(self, origin: str) -> Mark | None:
        """From where on something here lacks an origin that does not speak for itself, since its
        node is gone, say: only if it is younger, whatever clocks do. None: nothing does."""
        first = self._first(origin, _END, 0)
        return None if first == _END else first

    def _first(self, origin: str, mark: Mark, differ: int) -> Mark:
        longest = next(iter(self._waiting.values()), None)
        waiting = [*self._going_on.values(), *([] if longest is None else [longest])]
        return min((each.begins(origin, mark, differ) for each in waiting), default=mark)
