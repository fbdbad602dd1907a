"""Property: connected sites have the same list of sites (RCM R6)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from broker.testing.order.run import Run
from broker.testing.order.timeline import Timeline
from broker.testing.order.violation import Property, Violation


def sites(run: Run, timeline: Timeline) -> Iterator[Violation]:
    """Yield pairs of connected sites with different lists at the end.

    Changes are messages: their places are judged as those of all messages.
    """
    for one, other in combinations(sorted(run.members), 2):
        ours, theirs = run.members[one], run.members[other]
        if ours != theirs and timeline.are_connected(one, other, run.end, run.end):
            text = f"{one} knows the sites {sorted(ours)}, and {other} {sorted(theirs)}"
            yield Violation(run.end, Property.SITES, text)
