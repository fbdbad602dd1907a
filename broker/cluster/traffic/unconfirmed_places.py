"""Places at the end of a transport's range, without an event, until the origin confirms them.

Another node can state an empty range to a transport, far ahead of the end of a log: then the events
of these places would count as passed. So a range without an event confirms no place. Its rest waits
for a later event of the flow, or for a range of the origin.
"""

from __future__ import annotations

import attrs

from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.received_range import ReceivedRange
from broker.event.place import Mark


class UnconfirmedPlaces:
    """One range of each flow; a later one replaces it, or is added to its end."""

    def __init__(self) -> None:
        self._confirmed: dict[str, Mark] = {}
        """Newest mark of each flow in a range of its origin."""
        self._waiting: dict[str, Range] = {}
        self._proven: set[str] = set()
        """Flows with a signed range: their unsigned announcements confirm nothing. Where a flow
        enters the cluster, its ranges lose their signatures."""

    def limit(self, received: ReceivedRange, position: Mark | None) -> ReceivedRange | None:
        """Return the part of a range up to the last confirmed place; None: it has none."""
        flow, span = received.frame.origin, received.range
        after, upto = span.after, span.upto
        events = received.frame.events_for(received.index)
        confirmed = max(position or (0, 0), self._confirmed.get(flow, (0, 0)))
        if span.dropped:
            # A queue policy dropped the event at its end.
            confirmed = max(confirmed, upto)
        elif events:
            confirmed = max(confirmed, events[-1].mark)
        waiting = self._waiting.pop(flow, None)
        if waiting is not None and waiting.after <= after <= waiting.upto:
            after, upto = waiting.after, max(upto, waiting.upto)
        if upto > confirmed:
            begin = max(confirmed, after)
            self._waiting[flow] = Range(span.destination, begin, upto, is_unfiltered=True)
            if confirmed <= after:
                return None
            upto = confirmed
        if (after, upto) == (span.after, span.upto):
            return received
        span = span._replace(after=after, upto=upto)
        return ReceivedRange(span, received.frame, received.index, is_carried=True)

    def confirm(self, received: ReceivedRange, position: Mark | None) -> ReceivedRange | None:
        """Note a range of the origin. Return a range that waits, if some of it is confirmed now."""
        flow, mark = received.frame.origin, received.range.upto
        if received.range.proof is not None:
            self._proven.add(flow)
        if received.is_unproved_announcement and flow in self._proven:
            return None
        if position is None or mark <= self._confirmed.get(flow, (0, 0)):
            return None
        self._confirmed[flow] = mark
        waiting = self._waiting.get(flow)
        if waiting is None or waiting.after > mark:
            return None
        frame = attrs.evolve(
            received.frame, ranges=[waiting], recipient_runs=[], history=None, statement=None
        )
        frame.cache_events(())
        return ReceivedRange(waiting, frame, 0, is_carried=True)
