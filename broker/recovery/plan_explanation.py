"""The planner told in words: where each part of what is missed would be looked for, and why there.

Nothing is started. What other nodes' logs still have, only they know: they are expected to have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from broker.archive.intervals import Interval, common, merged, without
from broker.delivery.recovery import MarkRange
from broker.event.place import Mark
from broker.recovery.archive_access import Intervals
from broker.recovery.planner import OWN_LOG, Sources, Step, places

#: An end for what has none.
_ENDLESS: Mark = (1 << 32, 1 << 62)


@attrs.frozen
class Known:
    """What this node knows when it plans."""

    own: str
    """Its own origin."""
    since: Mapping[str, Mark]
    """By origin, behind which mark retention lets its log begin."""
    sources: Sources
    homes: Callable[[str], Sequence[str]]
    """Addresses of the nodes that can be asked for an origin's events, the best first."""
    covered: Intervals
    """What the archive has; an origin that is missing here it has nothing of, or can not tell."""
    archive_told: bool
    """Whether the archive could tell."""


def explanation(
    wanted: Mapping[str, MarkRange],
    recovered: Mapping[str, MarkRange],
    steps: Sequence[Step],
    known: Known,
    *,
    whole: bool = False,
) -> dict[str, Any]:
    """Plain content: the steps, and by origin which part comes from where.

    `recovered` is what of `wanted` has to be recovered, by `steps`; the rest the own log has.
    `whole`: all of origins that nobody here knows is wanted, too.
    """
    return {
        "steps": [
            {"source": step.source, "origins": sorted(step.ranges), "why": step.why}
            for step in steps
        ],
        "origins": [
            _origin(origin, wanted[origin], recovered.get(origin), steps, known)
            for origin in sorted(wanted, key=lambda each: (each != known.own, each))
        ],
        "others": whole,
        "archive": {"available": known.sources.archive, "told": known.archive_told},
        "busy": known.sources.busy,
        "places": places(wanted),
    }


def _origin(
    origin: str,
    wanted: MarkRange,
    recovered: MarkRange | None,
    steps: Sequence[Step],
    known: Known,
) -> dict[str, Any]:
    everything = _closed(wanted)
    left = [] if recovered is None else [_closed(recovered)]
    parts = [
        _part(OWN_LOG, each, [], "this node's log has it") for each in without([everything], left)
    ]
    for step in steps:
        found, whom = _found(origin, step, left, known)
        own = step.source == "logs" and origin == known.own
        source = OWN_LOG if own else step.source
        parts += [_part(source, each, whom, step.why) for each in found]
        left = list(without(left, found))
    return {
        "origin": origin,
        "own": origin == known.own,
        **_told(everything),
        "parts": sorted(parts, key=lambda part: part["after"]),
        # Where there is no end, nobody knows of anything that is missing.
        "gaps": [
            {**_told(each), "why": _why_nobody(origin, known)}
            for each in left
            if each[1] != _ENDLESS
        ],
    }


def _found(
    origin: str, step: Step, left: Sequence[Interval], known: Known
) -> tuple[Sequence[Interval], list[str]]:
    """What a step brings of what is left, and who is asked for it."""
    if step.source == "former":
        return left, [known.sources.former]
    if step.source == OWN_LOG:
        return left, []
    if step.source == "archive":
        return common(left, known.covered.get(origin, ())), []
    if origin not in known.sources.logs:
        return [], []
    if origin == known.own:
        # Its log begins where retention lets it; copies are elsewhere, if anywhere.
        begins = known.since.get(origin, (0, 0))
        return without(left, [((0, 0), begins)]), []
    # An end that is not known is the archive's to tell: a node has what it has said it has.
    return merged(left), list(known.homes(origin))


def _why_nobody(origin: str, known: Known) -> str:
    if not known.sources.archive:
        rest = "there is no archive"
    elif not known.archive_told:
        rest = "the archive can not tell at the moment what it has"
    else:
        rest = "the archive has not got it, or not yet"
    if origin == known.own:
        return f"retention took it from this node's log, and {rest}"
    if origin in known.sources.logs:
        return f"the nodes that can be asked do not have it, and {rest}"
    return f"no node that has this log can be reached, and {rest}"


def _closed(wanted: MarkRange) -> Interval:
    after, upto = wanted
    return after, _ENDLESS if upto is None else upto


def _part(source: str, interval: Interval, whom: list[str], why: str) -> dict[str, Any]:
    return {"source": source, **_told(interval), "whom": whom, "why": why}


def _told(interval: Interval) -> dict[str, Any]:
    """The bounds as marks, and how many places lie between; None where there is no end."""
    after, upto = interval
    ends = upto != _ENDLESS
    return {
        "after": list(after),
        "upto": list(upto) if ends else None,
        "places": upto[1] - after[1] if ends else None,
    }
