"""Claims of ranges that other nodes select, and how long a node waits for events before them.

A range claims that all events of this node's interest in it are there. Interest that only the
transport of a stream has is unknown to other nodes: their ranges show the end of a flow, but claim
nothing, and pages are requested unfiltered. So it is with flows of which this node gets all events:
an origin may not have this node's interest yet.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.received_range import ReceivedRange
from broker.event.flow import is_default_flow
from broker.event.place import Mark

#: Seconds that a range waits for earlier ones.
REORDER_SECONDS = 0.1
#: The same where another transport carries the flow, and this one announces its end: that transport
#: may be slower than one frame. Five times covers its usual delay and one repetition.
FLOW_GRACE_SECONDS = 5 * REORDER_SECONDS
#: The same where only that transport has the node's interest: a node of a mesh states within a
#: second that nothing of interest is before the end, and so does each node above it.
CARRIER_GRACE_SECONDS = 5.0


@attrs.frozen
class Claims:
    unclaimed_upto: Callable[[str], Mark] = lambda _: (0, 0)
    """Returns the place in a flow up to which other nodes may not select by all interest."""
    gets_all: Callable[[str], bool] = lambda _: False
    """Returns whether this node gets all events of a flow, from the first one on."""

    def limit(self, received: ReceivedRange) -> ReceivedRange:
        """Return a range without the places of which it claims too much."""
        span, flow = received.range, received.frame.origin
        if received.is_carried or received.is_copy or span.is_unfiltered or received.loss_reason:
            return received
        if self.gets_all(flow) and not received.frame.events_for(received.index):
            upto = span.upto
        else:
            upto = min(self.unclaimed_upto(flow), span.upto)
        if upto <= span.after:
            return received
        first = span.first_after or span.after
        rest = Range(span.destination, upto, span.upto, first_after=first)
        return attrs.evolve(received, range=rest)

    def is_unclaimed_after(self, flow: str, mark: Mark) -> bool:
        """Return whether a page behind a mark must have all events."""
        return mark < self.unclaimed_upto(flow) or self.gets_all(flow)

    def seconds_before(self, held: ReceivedRange) -> float:
        """Return the seconds in which what is missing before a range may still come by itself."""
        flow = held.frame.origin
        if not held.is_carried and held.range.upto <= self.unclaimed_upto(flow):
            return CARRIER_GRACE_SECONDS
        return 0.0 if held.is_in_order else reorder_seconds(flow)


def reorder_seconds(flow: str) -> float:
    return REORDER_SECONDS if is_default_flow(flow) else FLOW_GRACE_SECONDS
