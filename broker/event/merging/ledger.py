"""How far a reader has got when events are given out in another order than their origins'.

A position says of each origin that everything up to a mark is processed (DESIGN 1). So it may
move past an event only when that event, and all that came before it from the same origin, are.
"""

from __future__ import annotations

from collections import OrderedDict

import attrs

from broker.event.place import Mark, Place, Position


@attrs.define(eq=False)
class _Origin:
    newest: Mark | None = None
    """Nothing of this origin up to here is still to come."""
    open: OrderedDict[Mark, Mark | None] = attrs.field(factory=OrderedDict)
    """What came and is not processed, as it came; with what was the newest before it."""

    def reached(self) -> Mark | None:
        return next(iter(self.open.values())) if self.open else self.newest


class Ledger:
    """Places that came and are not processed yet; it takes room for them alone."""

    def __init__(self) -> None:
        self._origins: dict[str, _Origin] = {}

    def came(self, place: Place, *, solid: bool = True) -> None:
        """An event that will be processed later. If it is not `solid`, earlier ones of its origin
        may be missing still: then only `passed` says that they are not."""
        origin = self._origins.setdefault(place.origin, _Origin())
        origin.open[place.mark] = origin.newest
        if solid:
            self._move(origin, place.mark)

    def passed(self, position: Position) -> None:
        """Up to here nothing more will come: it did, or it did not match."""
        for name, mark in position.marks.items():
            self._move(self._origins.setdefault(name, _Origin()), mark)

    def processed(self, place: Place) -> None:
        """An event that came is processed. A place that did not come changes nothing."""
        origin = self._origins.get(place.origin)
        if origin is not None:
            origin.open.pop(place.mark, None)

    @property
    def position(self) -> Position:
        """Everything up to here is processed. It never falls, as long as marks come in order."""
        reached = ((name, origin.reached()) for name, origin in self._origins.items())
        return Position({name: mark for name, mark in reached if mark is not None})

    @staticmethod
    def _move(origin: _Origin, mark: Mark) -> None:
        origin.newest = mark if origin.newest is None else max(origin.newest, mark)
