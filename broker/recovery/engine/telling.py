"""What a report tells of the archive itself: how far it goes, and what of it is lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.event.place import Mark
from broker.recovery.engine.contract import Hole
from broker.recovery.request import ReplayRequest
from broker.store.archive.intervals import Interval, Intervals, common, merged, reach
from broker.store.archive.listed import ArchivedFile
from broker.store.archive.state import ArchiveState

#: Behind all events of an origin.
_EVERYWHERE: Mark = (2**32 - 1, 2**63 - 1)


class Reach:
    """How far the archive goes, where what is lost counts as had: reports tell of it as holes."""

    def __init__(self, state: ArchiveState) -> None:
        self._intervals: dict[str, Intervals] = {
            origin: merged((*intervals, *state.lost.get(origin, ())))
            for origin, intervals in state.covered.items()
        }

    def of(self, request: ReplayRequest) -> Mapping[str, Mark]:
        """By origin how far it goes without a hole from where the request begins."""
        found: dict[str, Mark] = {}
        for origin in {*self._intervals, *request.ranges}:
            wanted = request.range_of(origin)
            if wanted is not None:
                after, upto = wanted
                far = reach(self._intervals.get(origin, ()), after)
                found[origin] = far if upto is None else min(far, upto)
        return found


def holes(request: ReplayRequest, files: Iterable[ArchivedFile]) -> tuple[Hole, ...]:
    """What of a request's ranges these files held, which can not be read."""
    lost: dict[str, list[Interval]] = {}
    for file in files:
        for origin, interval in file.intervals.items():
            lost.setdefault(origin, []).append(interval)
    found: list[Hole] = []
    for origin, intervals in sorted(lost.items()):
        wanted = request.range_of(origin)
        if wanted is not None:
            after, upto = wanted
            part = common([(after, _EVERYWHERE if upto is None else upto)], intervals)
            found += [(origin, *interval) for interval in part]
    return tuple(found)
