"""What a report tells of the archive itself: how far it goes, and what of it is lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from broker.event.place import Mark
from broker.recovery.engine.contract import Hole
from broker.recovery.request import ReplayRequest
from broker.store.archive.intervals import Interval, Intervals, common, merged, reach
from broker.store.archive.listed import ArchivedFile
from broker.store.archive.state import ArchiveState

#: Behind all events of an origin.
_EVERYWHERE: Mark = (2**32 - 1, 2**63 - 1)


class Telling:
    """What is to be told of one moment of the archive."""

    def __init__(self, state: ArchiveState) -> None:
        self._state = state
        # What is lost counts as had: holes tell of it.
        self._intervals: dict[str, Intervals] = {
            origin: merged((*intervals, *state.lost.get(origin, ())))
            for origin, intervals in state.covered.items()
        }

    def reach(self, request: ReplayRequest) -> Mapping[str, Mark]:
        """By origin how far it goes without a hole from where the request begins."""
        found: dict[str, Mark] = {}
        for origin in {*self._intervals, *request.ranges}:
            wanted = request.range_of(origin)
            if wanted is not None:
                after, upto = wanted
                far = reach(self._intervals.get(origin, ()), after)
                found[origin] = far if upto is None else min(far, upto)
        return found

    def holes(self, request: ReplayRequest, files: Iterable[ArchivedFile]) -> tuple[Hole, ...]:
        """What of a request's ranges was in these files, which can not be read, and nobody has
        written again."""
        lost: dict[str, list[Interval]] = defaultdict(list)
        for file in files:
            for origin, intervals in self._state.lost_with(file).items():
                lost[origin] += intervals
        found: list[Hole] = []
        for origin, of_origin in sorted(lost.items()):
            wanted = request.range_of(origin)
            if wanted is not None:
                after, upto = wanted
                part = common([(after, _EVERYWHERE if upto is None else upto)], of_origin)
                found += [(origin, *interval) for interval in part]
        return tuple(found)
