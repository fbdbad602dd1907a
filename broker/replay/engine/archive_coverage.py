"""Covered and missing places of the archive, for reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from broker.archive.archive_state import ArchiveState
from broker.archive.interval import Interval, Intervals, difference, intersection, union
from broker.archive.manifest_entry import ArchivedFile
from broker.event.place import Mark
from broker.replay.engine.contract import MissingRange
from broker.replay.request import ReplayRequest

#: After all events of an origin.
_EVERYWHERE: Mark = (2**32 - 1, 2**63 - 1)
_NOWHERE: Mark = (0, 0)


class ArchiveCoverage:
    def __init__(self, state: ArchiveState) -> None:
        self._state = state
        # Lost places count as covered here; `missing_ranges` reports them.
        self._intervals: dict[str, Intervals] = {
            origin: union((*intervals, *state.lost_ranges.get(origin, ())))
            for origin, intervals in state.covered.items()
        }

    def covered_upto(self, request: ReplayRequest) -> Mapping[str, Mark]:
        """Return the end of the archive within the request's ranges, by origin."""
        found: dict[str, Mark] = {}
        for origin in {*self._intervals, *request.ranges}:
            requested = request.range_of(origin)
            if requested is not None:
                after, upto = requested
                last = max(after, self._last(origin))
                found[origin] = last if upto is None else min(last, upto)
        return found

    def missing_ranges(
        self, request: ReplayRequest, files: Iterable[ArchivedFile]
    ) -> tuple[MissingRange, ...]:
        """Return requested places that the archive lacks before its end.

        They were in the unreadable `files`, or no manifest covers them.
        """
        lost: dict[str, list[Interval]] = defaultdict(list)
        for file in files:
            for origin, intervals in self._state.lost_ranges_of(file).items():
                lost[origin] += intervals
        found: list[MissingRange] = []
        for origin in sorted({*lost, *self._intervals}):
            requested = request.range_of(origin)
            if requested is None:
                continue
            after, upto = requested
            last = self._last(origin)
            uncovered = difference(
                [(after, last if upto is None else min(last, upto))],
                self._intervals.get(origin, ()),
            )
            damaged = intersection([(after, _EVERYWHERE if upto is None else upto)], lost[origin])
            missing = _split_at_mark(union((*uncovered, *damaged)), request.known.get(origin))
            found += [(origin, *each) for each in missing if _has_places(each)]
        return tuple(found)

    def _last(self, origin: str) -> Mark:
        ends = (end for _, end in self._intervals.get(origin, ()))
        return max((*ends, self._state.lost_ends.get(origin, _NOWHERE)))


def _split_at_mark(intervals: Intervals, mark: Mark | None) -> Iterator[Interval]:
    """Split the interval that contains `mark`.

    Offsets decrease behind a reset, so it would look empty.
    """
    for after, upto in intervals:
        if mark is not None and after < mark < upto:
            yield after, mark
            after = mark
        yield after, upto


def _has_places(interval: Interval) -> bool:
    # The next epoch continues with the next offset.
    (_, after), (_, upto) = interval
    return after < upto
