"""Where a subscription's past ends and its node's own log begins (X6, X8, DESIGN 5).

A log has all that a subscription wants of this node's own events, as far back as retention lets it.
Of other origins it has it from behind the place where the subscription flowed here. What lies
between a client's position and there is recovered; from there on the log feeds it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from broker.delivery.recovery import MarkRange
from broker.event.place import Mark

_NOWHERE: Mark = (0, 0)


@attrs.frozen
class Seam:
    """What is to be recovered, and behind which marks the log goes on."""

    ranges: Mapping[str, MarkRange]
    joins: Mapping[str, Mark]


def at_cut(
    position: Mapping[str, Mark], cut: Mapping[str, Mark], own: str, since: Mapping[str, Mark]
) -> Seam:
    """The seam of a client that comes from elsewhere: all up to the cut is recovered.

    That goes for this node's own events, too, where others are recovered: one that its publisher
    sent here before another one that it sent elsewhere must not come behind that. An origin of
    which nothing is known here may be gone for good: whatever there is of it is recovered.
    """
    ranges: dict[str, MarkRange] = {}
    for origin, mark in cut.items():
        begun = position.get(origin, _NOWHERE)
        if begun[1] < mark[1]:
            ranges[origin] = (begun, mark)
    for origin, mark in position.items():
        if origin not in cut:
            ranges[origin] = (mark, None)
    if ranges.keys() <= {own} and position.get(own, _NOWHERE) >= since.get(own, _NOWHERE):
        return Seam({}, dict(position))
    return Seam(ranges, _further(position, cut))


def at_retention(
    position: Mapping[str, Mark], complete: Mapping[str, Mark], since: Mapping[str, Mark]
) -> Seam:
    """The seam of a client whose subscription was wanted here all the time, behind `complete`: what
    lies before that, or before where retention lets the log begin (`since`), is recovered."""
    ranges: dict[str, MarkRange] = {}
    for origin in {*complete, *(origin for origin in since if origin in position)}:
        begun = position.get(origin, _NOWHERE)
        mark = max(complete.get(origin, _NOWHERE), since.get(origin, _NOWHERE))
        if begun[1] < mark[1]:
            ranges[origin] = (begun, mark)
    upto = {origin: mark for origin, (_, mark) in ranges.items() if mark is not None}
    return Seam(ranges, _further(position, upto))


def whole_past(cut: Mapping[str, Mark]) -> Seam:
    """The seam of a subscription that begins before all logs do."""
    return Seam({origin: (_NOWHERE, mark) for origin, mark in cut.items()}, dict(cut))


def open_ended(seam: Seam, position: Mapping[str, Mark], gone: Collection[str]) -> Seam:
    """The seam where nobody can tell how far these origins got: not where this node stands is the
    end of what is recovered of them, but where there is no more."""
    opened: dict[str, MarkRange] = {o: (position.get(o, _NOWHERE), None) for o in gone}
    return Seam({**seam.ranges, **opened}, seam.joins)


def up_to(
    ranges: Mapping[str, MarkRange], until: Mapping[str, Mark], begun: Mapping[str, Mark]
) -> dict[str, MarkRange]:
    """Of these ranges what lies up to a position; of origins that it does not name, nothing.

    Of one that only the position names, and nobody here knows, all up to there behind `begun`."""
    cut: dict[str, MarkRange] = {}
    for origin, last in until.items():
        after, upto = ranges.get(origin, (begun.get(origin, _NOWHERE), None))
        end = last if upto is None else min(last, upto)
        if after < end:
            cut[origin] = (after, end)
    return cut


def _further(one: Mapping[str, Mark], other: Mapping[str, Mark]) -> dict[str, Mark]:
    origins = {*one, *other}
    return {o: max(one.get(o, _NOWHERE), other.get(o, _NOWHERE)) for o in origins}
