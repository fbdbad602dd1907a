"""Checks of a frame's header, beyond the types and bounds of its fields."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from broker.event.flow import FlowInterval, is_default_flow


def check_runs(
    events: int,
    ranges: int,
    mark_runs: Sequence[tuple[int, int, int]],
    recipient_runs: Sequence[tuple[int, tuple[int, ...]]],
    level_runs: Sequence[tuple[int, int]],
) -> None:
    """Raise ValueError if the runs do not fit these numbers of events and ranges."""
    counts = {events}
    counts.add(sum([count for _, _, count in mark_runs]))
    counts.add(sum([count for count, _ in recipient_runs]))
    counts.add(sum([count for _, count in level_runs]))
    if len(counts) > 1:
        raise ValueError("event counts differ")
    if any(max(indices, default=0) >= ranges for _, indices in recipient_runs):
        raise ValueError("invalid run")
    ends = [((e, first), (e, first + count - 1)) for e, first, count in mark_runs]
    if any(last + 1 >> 63 for _, (_, last) in ends):
        raise ValueError("places exceed those of a log")
    if any(one[1] >= other[0] for one, other in itertools.pairwise(ends)):
        raise ValueError("places do not ascend")


def check_intervals(flow: str, intervals: Sequence[FlowInterval]) -> None:
    """Raise ValueError for intervals that are none of this flow."""
    if intervals and is_default_flow(flow):
        raise ValueError("intervals of a default flow")
    ends = [end for interval in intervals for end in interval]
    if None in ends[:-1]:
        raise ValueError("an open interval is not the last one")
    marks = [end for end in ends if end is not None]
    if marks != sorted(marks):
        raise ValueError("intervals of a flow do not ascend")
