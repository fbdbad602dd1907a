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
CLOCKS_DIFFER = 600_000
_NOWHERE: Mark = (0, 0)
_END: Mark = (1 << 63, 1 << 63)


@attrs.define
class _Named:
    """An origin that is not known here, at a place of which something goes on."""

    origin: str
    lowest: Mark
    """Of the places, also of what has gone meanwhile."""
    times: int = 0
    """How many name it."""


@attrs.frozen
class _GoingOn:
    since: int
    named: tuple[_Named, ...]


class Newcomers:
    """What waits here, by its key, in the order of time. It does not matter how much that is."""

    def __init__(self, wall_clock: Callable[[], int]) -> None:
        """`wall_clock` gives ms since 1970."""
        self._wall_clock = wall_clock
        self._waiting: dict[Hashable, int] = {}
        """Since when: what goes on at no place of an origin that is not known here."""
        self._going_on: dict[Hashable, _GoingOn] = {}
        self._named: dict[str, _Named] = {}

    @property
    def named(self) -> dict[str, Mark]:
        """The origins at places of which something goes on, and the lowest of these."""
        return {each.origin: each.lowest for each in self._named.values()}

    def wait(self, key: Hashable, position: Mapping[str, Mark] | None = None) -> None:
        """The key waits from now on, if it does not yet; with a position it goes on there."""
        since = self._since(key)
        if since is not None and not position:
            return
        self.forget(key)
        if since is None:
            since = self._wall_clock()
        if position:
            named = tuple(self._name(origin, mark) for origin, mark in position.items())
            self._going_on[key] = _GoingOn(since, named)
        else:
            self._waiting[key] = since

    def forget(self, key: Hashable) -> None:
        """The key waits no more."""
        self._waiting.pop(key, None)
        going_on = self._going_on.pop(key, None)
        for each in () if going_on is None else going_on.named:
            each.times -= 1
            if not each.times:
                del self._named[each.origin]

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
        named = self._named.get(origin)
        longest = list(islice(self._waiting.values(), 1))
        if named is None or named.times < len(self._going_on):
            # Some of these do not name it: the first one stands for them.
            longest += [each.since for each in islice(self._going_on.values(), 1)]
        if any(since <= born(origin) + differ for since in longest):
            return _NOWHERE
        return mark if named is None else min(mark, named.lowest)

    def _since(self, key: Hashable) -> int | None:
        going_on = self._going_on.get(key)
        return self._waiting.get(key) if going_on is None else going_on.since

    def _name(self, origin: str, mark: Mark) -> _Named:
        named = self._named.setdefault(origin, _Named(origin, mark))
        named.lowest = min(mark, named.lowest)
        named.times += 1
        return named
