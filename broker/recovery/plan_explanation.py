"""Explains a plan: the source of each missed range, and the reason.

Nothing is started. Other nodes' logs are assumed to be complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from broker.archive.interval import Interval, difference, intersection, union
from broker.delivery.recovery_contract import MarkRange
from broker.event.flow import origin_of
from broker.event.place import Mark
from broker.recovery.archive_access import Intervals
from broker.recovery.planner import OWN_LOG, AvailableSources, PlanStep, count_places

_ENDLESS: Mark = (1 << 32, 1 << 62)


@attrs.frozen
class PlanContext:
    own_origin: str
    log_begins: Mapping[str, Mark]
    """By origin the mark at which retention lets this log begin."""
    sources: AvailableSources
    origin_nodes: Callable[[str], Sequence[str]]
    """The best first."""
    archived: Intervals
    is_archive_known: bool


def explain_plan(
    requested: Mapping[str, MarkRange],
    recovered: Mapping[str, MarkRange],
    steps: Sequence[PlanStep],
    context: PlanContext,
    *,
    all_origins: bool = False,
) -> dict[str, Any]:
    """Return the steps, and by origin the source of each part, as JSON content.

    `recovered` is the part of `requested` that the own log lacks. `all_origins`: all others are
    needed too.
    """
    return {
        "steps": [
            {"source": step.source, "origins": sorted(step.ranges), "why": step.why}
            for step in steps
        ],
        "origins": [
            _explain_origin(origin, requested[origin], recovered.get(origin), steps, context)
            for origin in sorted(
                requested, key=lambda each: (origin_of(each) != context.own_origin, each)
            )
        ],
        "others": all_origins,
        "archive": {"available": context.sources.has_archive, "told": context.is_archive_known},
        "busy": context.sources.active_recoveries,
        "places": count_places(requested),
    }


def _explain_origin(
    origin: str,
    requested: MarkRange,
    recovered: MarkRange | None,
    steps: Sequence[PlanStep],
    context: PlanContext,
) -> dict[str, Any]:
    everything = _close_range(requested)
    left = [] if recovered is None else [_close_range(recovered)]
    parts = [
        _describe_part(OWN_LOG, each, [], "this node's log has it")
        for each in difference([everything], left)
    ]
    for step in steps:
        found, nodes = _covered_by_step(origin, step, left, context)
        own = step.source == "logs" and origin_of(origin) == context.own_origin
        source = OWN_LOG if own else step.source
        parts += [_describe_part(source, each, nodes, step.why) for each in found]
        left = list(difference(left, found))
    return {
        "origin": origin,
        "own": origin_of(origin) == context.own_origin,
        **_describe_interval(everything),
        "parts": sorted(parts, key=lambda part: part["after"]),
        # Without an end, no missing event is known.
        "gaps": [
            {**_describe_interval(each), "why": _gap_reason(origin, context)}
            for each in left
            if each[1] != _ENDLESS
        ],
    }


def _covered_by_step(
    origin: str, step: PlanStep, left: Sequence[Interval], context: PlanContext
) -> tuple[Sequence[Interval], list[str]]:
    """Return the covered part of the intervals, and the nodes asked."""
    if step.source == "former":
        return left, [context.sources.previous_node]
    if step.source == OWN_LOG:
        return left, []
    if step.source == "archive":
        return intersection(left, context.archived.get(origin, ())), []
    if origin not in context.sources.log_origins:
        return [], []
    if origin_of(origin) == context.own_origin:
        # Only other nodes have replicas of own events.
        begins = context.log_begins.get(origin, (0, 0))
        return difference(left, [((0, 0), begins)]), []
    # Only the archive knows an unknown end. A node has all that it announced.
    return union(left), list(context.origin_nodes(origin))


def _gap_reason(origin: str, context: PlanContext) -> str:
    if not context.sources.has_archive:
        rest = "there is no archive"
    elif not context.is_archive_known:
        rest = "the archive's coverage is unknown at the moment"
    else:
        rest = "the archive does not have it, or not yet"
    if origin_of(origin) == context.own_origin:
        return f"retention removed it from this node's log, and {rest}"
    if origin in context.sources.log_origins:
        return f"the nodes that can be asked do not have it, and {rest}"
    return f"no node that has this log can be reached, and {rest}"


def _close_range(requested: MarkRange) -> Interval:
    after, upto = requested
    return after, _ENDLESS if upto is None else upto


def _describe_part(source: str, interval: Interval, nodes: list[str], why: str) -> dict[str, Any]:
    return {"source": source, **_describe_interval(interval), "whom": nodes, "why": why}


def _describe_interval(interval: Interval) -> dict[str, Any]:
    after, upto = interval
    ends = upto != _ENDLESS
    return {
        "after": list(after),
        "upto": list(upto) if ends else None,
        "places": upto[1] - after[1] if ends else None,
    }
