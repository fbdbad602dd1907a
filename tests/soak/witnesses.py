"""What the disks of all nodes tell of an origin's places at the end of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from broker.event.place import Mark, Place
from broker.store.histories import History


class Witnesses:
    """Places of which a log, a replica or the archive tells that they were given."""

    def __init__(self) -> None:
        self._furthest: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._branches: dict[str, list[tuple[int, Mark]]] = {}

    def tell(self, origin: str, marks: Iterable[Mark]) -> None:
        """These places were given, and what lies before them."""
        furthest = self._furthest[origin]
        for epoch, offset in marks:
            furthest[epoch] = max(offset, furthest.get(epoch, 0))

    def began(self, origin: str, histories: Iterable[History]) -> None:
        """The histories of the branch to which an origin's log belongs."""
        self._branches[origin] = [(history.epoch, history.branch) for history in histories]

    def know(self, place: Place) -> bool:
        """Whether a disk tells that this place was given.

        A place in a later epoch tells of it, unless the origin went back behind it between both.
        """
        mark = place.mark
        branches = self._branches.get(place.origin, ())
        left = min((e for e, branch in branches if e > mark[0] and mark > branch), default=None)
        return any(
            (epoch, offset) >= mark and (left is None or epoch < left)
            for epoch, offset in self._furthest[place.origin].items()
        )
