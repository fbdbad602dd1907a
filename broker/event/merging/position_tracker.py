"""Position of a reader whose events come in another order than their origins'."""

from __future__ import annotations

from collections import OrderedDict

import attrs

from broker.event.place import Mark, Place, Position


@attrs.define(eq=False)
class _Origin:
    newest: Mark | None = None
    """No event of this origin up to here is still to come."""
    open: OrderedDict[Mark, Mark | None] = attrs.field(factory=OrderedDict)
    """Unprocessed marks in order of arrival, each with the newest mark before it."""

    def processed_mark(self) -> Mark | None:
        return next(iter(self.open.values())) if self.open else self.newest


class PositionTracker:
    """Position of a reader whose events come in another order than their origins'.

    It passes an event only when that and all earlier arrivals of its origin are processed (DESIGN
    1).
    """

    def __init__(self) -> None:
        self._origins: dict[str, _Origin] = {}

    def record_arrival(self, place: Place, *, contiguous: bool = True) -> None:
        """Record an event to be processed. If not `contiguous`, earlier ones may be missing until
        `record_progress`."""
        origin = self._origins.setdefault(place.origin, _Origin())
        origin.open[place.mark] = origin.newest
        if contiguous:
            self._advance(origin, place.mark)

    def record_progress(self, position: Position) -> None:
        """Record that no more events will come up to here."""
        for name, mark in position.marks.items():
            self._advance(self._origins.setdefault(name, _Origin()), mark)

    def record_processed(self, place: Place) -> None:
        """Record that an event is processed; an unknown place changes nothing."""
        origin = self._origins.get(place.origin)
        if origin is not None:
            origin.open.pop(place.mark, None)

    @property
    def position(self) -> Position:
        """It never falls while marks arrive in order."""
        reached = ((name, origin.processed_mark()) for name, origin in self._origins.items())
        return Position({name: mark for name, mark in reached if mark is not None})

    @staticmethod
    def _advance(origin: _Origin, mark: Mark) -> None:
        origin.newest = mark if origin.newest is None else max(origin.newest, mark)
