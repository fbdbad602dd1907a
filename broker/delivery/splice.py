"""Splice: where recovered events meet the log (X6, X8, DESIGN 5).

The log has own matching events back to retention, and others since the subscription became active
here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from broker.delivery.recovery_contract import MarkRange
from broker.event.flow import origin_of
from broker.event.place import Mark

_BEFORE_ALL: Mark = (0, 0)


@attrs.frozen
class Splice:
    """Ranges to recover, and the marks behind which the log continues."""

    ranges: Mapping[str, MarkRange]
    log_starts: Mapping[str, Mark]


def splice_at_cut(
    position: Mapping[str, Mark], cut: Mapping[str, Mark], own: str, since: Mapping[str, Mark]
) -> Splice:
    """Recover everything up to the cut, for a client from another node.

    This includes own events if other origins are recovered. Otherwise an event sent here could
    arrive behind a later one that its publisher sent elsewhere. The range of an unknown origin is
    open, because it may be dead.
    """
    ranges: dict[str, MarkRange] = {}
    for origin, mark in cut.items():
        had = position.get(origin, _BEFORE_ALL)
        if had[1] < mark[1]:
            ranges[origin] = (had, mark)
    for origin, mark in position.items():
        if origin not in cut:
            ranges[origin] = (mark, None)
    has_own = all(
        position.get(origin, _BEFORE_ALL) >= mark
        for origin, mark in since.items()
        if origin_of(origin) == own
    )
    if has_own and all(origin_of(origin) == own for origin in ranges):
        return Splice({}, dict(position))
    return Splice(ranges, _furthest_marks(position, cut))


def splice_at_retention(
    position: Mapping[str, Mark], complete: Mapping[str, Mark], since: Mapping[str, Mark]
) -> Splice:
    """Recover events before `complete`, where the subscription became active here, and before the
    log's start, `since`."""
    ranges: dict[str, MarkRange] = {}
    for origin in {*complete, *(origin for origin in since if origin in position)}:
        had = position.get(origin, _BEFORE_ALL)
        mark = max(complete.get(origin, _BEFORE_ALL), since.get(origin, _BEFORE_ALL))
        if had[1] < mark[1]:
            ranges[origin] = (had, mark)
    upto = {origin: mark for origin, (_, mark) in ranges.items() if mark is not None}
    return Splice(ranges, _furthest_marks(position, upto))


def splice_whole_past(cut: Mapping[str, Mark]) -> Splice:
    return Splice({origin: (_BEFORE_ALL, mark) for origin, mark in cut.items()}, dict(cut))


def open_ranges(
    splice: Splice, position: Mapping[str, Mark], dead_origins: Collection[str]
) -> Splice:
    """Open the ranges of dead origins, whose last place is unknown."""
    opened: dict[str, MarkRange] = {o: (position.get(o, _BEFORE_ALL), None) for o in dead_origins}
    return Splice({**splice.ranges, **opened}, splice.log_starts)


def limit_ranges(
    ranges: Mapping[str, MarkRange], until: Mapping[str, Mark], had: Mapping[str, Mark]
) -> dict[str, MarkRange]:
    """Limit ranges to a position, and drop origins that it does not name.

    Origins that only the position names get a range from `had`.
    """
    ends: dict[str, MarkRange] = {}
    for origin, last in until.items():
        after, upto = ranges.get(origin, (had.get(origin, _BEFORE_ALL), None))
        end = last if upto is None else min(last, upto)
        if after < end:
            ends[origin] = (after, end)
    return ends


def _furthest_marks(one: Mapping[str, Mark], other: Mapping[str, Mark]) -> dict[str, Mark]:
    origins = {*one, *other}
    return {o: max(one.get(o, _BEFORE_ALL), other.get(o, _BEFORE_ALL)) for o in origins}
