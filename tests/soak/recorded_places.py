"""Places that a log, a replica or the archive of a run records as used, when the run has ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from broker.event.place import Mark, Place
from broker.log.history import History


class RecordedPlaces:
    """By origin the furthest recorded mark of each epoch, and where its log was set back."""

    def __init__(self) -> None:
        self._furthest: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._branches: dict[str, list[tuple[int, Mark]]] = {}

    def add(self, origin: str, marks: Iterable[Mark]) -> None:
        """Record these places, and those before them on the same branch."""
        furthest = self._furthest[origin]
        for epoch, offset in marks:
            furthest[epoch] = max(offset, furthest.get(epoch, 0))

    def set_histories(self, origin: str, histories: Iterable[History]) -> None:
        """Set the histories of the branch on which an origin's log ended."""
        self._branches[origin] = [(history.epoch, history.branch) for history in histories]

    def __contains__(self, place: Place) -> bool:
        """Whether a place is recorded.

        A mark of a later epoch records it, unless the origin was set back behind the place between
        both.
        """
        mark = place.mark
        branches = self._branches.get(place.origin, ())
        left = min((e for e, branch in branches if e > mark[0] and mark > branch), default=None)
        return any(
            (epoch, offset) >= mark and (left is None or epoch < left)
            for epoch, offset in self._furthest[place.origin].items()
        )
