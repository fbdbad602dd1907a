"""Places that a log, a replica or the archive of a finished run records as used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from broker.event.place import Mark, Place
from broker.log.history import History


class RecordedPlaces:
    """The furthest recorded mark by origin and epoch, and the start of each branch."""

    def __init__(self) -> None:
        self._furthest: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._branches: dict[str, list[tuple[int, Mark]]] = {}

    def add(self, origin: str, marks: Iterable[Mark]) -> None:
        """Earlier places on the same branch are recorded, too."""
        furthest = self._furthest[origin]
        for epoch, offset in marks:
            furthest[epoch] = max(offset, furthest.get(epoch, 0))

    def set_histories(self, origin: str, histories: Iterable[History]) -> None:
        """The histories are of the branch on which the log ended."""
        self._branches[origin] = [(history.epoch, history.branch) for history in histories]

    def __contains__(self, place: Place) -> bool:
        """A mark of a later epoch records a place, unless a branch in between started before it."""
        mark = place.mark
        branches = self._branches.get(place.origin, ())
        next_branch = min(
            (e for e, branch in branches if e > mark[0] and mark > branch), default=None
        )
        return any(
            (epoch, offset) >= mark and (next_branch is None or epoch < next_branch)
            for epoch, offset in self._furthest[place.origin].items()
        )
