"""Places inside reported gaps at which no log and no receipt of the run shows an event.

The receipt of a republished event has no place. If its event is damaged, it may have been at any of
these.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from broker.event.place import Place
from broker.testing.guarantees.allowances import Allowances
from broker.testing.guarantees.observations import Observations
from broker.testing.guarantees.records import EventKey, ReportedGap


class UnrecordedPlaces:
    """Each place stands for one event."""

    def __init__(self, seen: Observations, gaps: Sequence[ReportedGap]) -> None:
        self._seen = seen
        self._gaps = gaps

    @cached_property
    def _left(self) -> list[int]:
        known = {place for places in self._seen.places.values() for place in places}
        return [gap.count - sum(map(gap.contains, known)) for gap in self._gaps]

    def use_place(self, key: EventKey, allowed: Allowances) -> bool:
        """Use one place in a gap that the run's faults justify; False if none is left."""
        for index, gap in enumerate(self._gaps):
            first = Place(gap.origin, *gap.first)
            if self._left[index] > 0 and allowed.justifies_gap(key, first, gap):
                self._left[index] -= 1
                return True
        return False
