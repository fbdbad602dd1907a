"""Own ordered flows, whose events are withheld until they are copied (`broker.log.known_flows`)."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from broker.event.flow import (
    MAX_INTERVALS,
    CarryingPatterns,
    FlowInterval,
    make_flow,
    origin_of,
)
from broker.event.place import Mark


@attrs.frozen
class WithheldFlows:
    intervals: Mapping[str, tuple[FlowInterval, ...]] = attrs.field(factory=dict)
    """The events in them are or were withheld."""
    ordered: frozenset[str] = frozenset()
    """Flows that are delivered by copies now."""
    lapsed: frozenset[str] = frozenset()
    """Those of them that no transport orders: withheld events of earlier processes come first."""


def update_withheld(
    origin: str,
    known: Mapping[str, tuple[FlowInterval, ...]],
    carrying: CarryingPatterns,
    ordered: CarryingPatterns | None,
    start: Mark,
    covered: Mapping[str, Mark],
) -> WithheldFlows:
    """Return the withheld flows from a start of the node on.

    `known` has the stored intervals, `covered` the mark of each flow's last copy, and the last own
    mark. Copies must not follow later events of their flow that are not withheld. So an interval
    ends only when all its events are copied, or its pattern is gone. Without a network (None)
    nothing is copied: then intervals end at the last copy.
    """
    own = {flow: each for flow, each in known.items() if origin_of(flow) == origin}
    end = covered.get(origin, (0, 0))
    wanted = {make_flow(origin, each.text) for each in ordered.patterns} if ordered else set()
    carried = {make_flow(origin, each.text) for each in carrying.patterns}
    found = dict(own)
    for flow, intervals in own.items():
        since, until = intervals[-1]
        copied = max(since, covered.get(flow, since))
        if ordered is None and (until is None or copied < until):
            found[flow] = (*intervals[:-1], (since, copied))
        elif until is None and flow not in wanted and (flow not in carried or copied >= end):
            found[flow] = (*intervals[:-1], (since, max(since, end)))
    for flow in wanted:
        intervals = found.get(flow, ())
        if intervals and _has_rest(intervals, flow, covered):
            # No later event of the flow was delivered.
            found[flow] = (*intervals[:-1], (intervals[-1][0], None))
        else:
            found[flow] = (*intervals, (start, None))[-MAX_INTERVALS:]
    copying = {flow for flow, each in found.items() if _has_rest(each, flow, covered)}
    return WithheldFlows(found, frozenset(copying), frozenset(copying - wanted))


def _has_rest(intervals: tuple[FlowInterval, ...], flow: str, covered: Mapping[str, Mark]) -> bool:
    """Return whether events of the last interval are, or may become, withheld."""
    since, until = intervals[-1]
    return until is None or max(since, covered.get(flow, since)) < until
