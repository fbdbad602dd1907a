"""Where a subscription's past ends and its node's own log begins (X6, X8, DESIGN 5).

A log has all that a subscription wants of this node's own events, as far back as retention lets it.
Of other origins it has it from behind the place where the subscription flowed here. What lies
between a client's position and there is recovered; from there on the log feeds it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from broker.delivery.recovery_contract import MarkRange
from broker.event.place import Mark

_BEFORE_ALL: Mark = (0, 0)


@attrs.frozen
class Splice:
    """What is to be recovered, and behind which marks the log goes on."""

    ranges: Mapping[str, MarkRange]
    log_starts: Mapping[str, Mark]


def splice_at_cut(
    position: Mapping[str, Mark], ends: Mapping[str, Mark], own: str, since: Mapping[str, Mark]
) -> Splice:
    """The seam of a client that comes from elsewhere: all up to the cut is recovered.

    That goes for this node's own events, too, where others are recovered: one that its publisher
    sent here before another one that it sent elsewhere must not come behind that. An origin of
    which nothing is known here may be gone for good: whatever there is of it is recovered.
    """
    ranges: dict[str, MarkRange] = {}
    for origin, mark in ends.items():
        had = position.get(origin, _BEFORE_ALL)
        if had[1] < mark[1]:
            ranges[origin] = (had, mark)
    for origin, mark in position.items():
        if origin not in ends:
            ranges[origin] = (mark, None)
    if ranges.keys() <= {own} and position.get(own, _BEFORE_ALL) >= since.get(own, _BEFORE_ALL):
        return Splice({}, dict(position))
    return Splice(ranges, _furthest_marks(position, ends))


def splice_at_retention(
    position: Mapping[str, Mark], complete: Mapping[str, Mark], since: Mapping[str, Mark]
) -> Splice:
    """The seam of a client whose subscription was wanted here all the time, behind `complete`: what
    lies before that, or before where retention lets the log begin (`since`), is recovered."""
    ranges: dict[str, MarkRange] = {}
    for origin in {*complete, *(origin for origin in since if origin in position)}:
        had = position.get(origin, _BEFORE_ALL)
        mark = max(complete.get(origin, _BEFORE_ALL), since.get(origin, _BEFORE_ALL))
        if had[1] < mark[1]:
            ranges[origin] = (had, mark)
    upto = {origin: mark for origin, (_, mark) in ranges.items() if mark is not None}
    return Splice(ranges, _furthest_marks(position, upto))


def splice_whole_past(ends: Mapping[str, Mark]) -> Splice:
    """The seam of a subscription that begins before all logs do."""
    return Splice({origin: (_BEFORE_ALL, mark) for origin, mark in ends.items()}, dict(ends))


def open_ranges(
    seam: Splice, position: Mapping[str, Mark], dead_origins: Collection[str]
) -> Splice:
    """The seam where nobody can tell how far these origins got: not where this node stands is the
    end of what is recovered of them, but where there is no more."""
    opened: dict[str, MarkRange] = {o: (position.get(o, _BEFORE_ALL), None) for o in dead_origins}
    return Splice({**seam.ranges, **opened}, seam.log_starts)


def limit_ranges(
    ranges: Mapping[str, MarkRange], until: Mapping[str, Mark], had: Mapping[str, Mark]
) -> dict[str, MarkRange]:
    """Of these ranges what lies up to a position; of origins that it does not name, nothing.

    Of one that only the position names, and nobody here knows, all up to there behind `begun`."""
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
