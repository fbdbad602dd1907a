"""Stream time: progress of publishers, by their own events and by their nodes.

A TimeStamp never falls within an incarnation, and a publisher's events arrive in its order. So each
of its events, on any stream, is punctuation: no earlier event of that publisher will come.

A node sends the stream times of origins: later events of an origin were committed after that time.
So a silent publisher has passed the stream time of its origin, less the delay from TimeStamp to
commit.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

import attrs

from broker.event.event_id import EventId

#: Publishers whose time is held; beyond that the one silent for longest is dropped.
MAX_PUBLISHERS: Final = 10_000


@attrs.define(eq=False)
class PublisherTime:
    incarnation: int
    time_ms: int
    """Its newest time stamp."""
    last_event_at: float
    """Seconds."""
    origin: str
    """Origin log of its newest event."""


class PublisherTimes:
    """Known publishers, and the stream times of their origins."""

    def __init__(self, delay: float = 0.0) -> None:
        """`delay`: longest time in seconds from a TimeStamp to the event's commit."""
        self._publishers: OrderedDict[str, PublisherTime] = OrderedDict()
        self._delay_ms = delay * 1000
        self._origins: Mapping[str, int] = {}

    def set_stream_times(self, times: Mapping[str, int]) -> None:
        self._origins = times

    @property
    def passed_by_all(self) -> float:
        """TimeStamp (ms) that every origin has passed."""
        return min(map(self._passed_time, self._origins), default=-math.inf)

    def time_of(self, source: PublisherTime) -> float:
        """Return the TimeStamp (ms) that a publisher has passed."""
        return max(source.time_ms, self._passed_time(source.origin))

    def _passed_time(self, origin: str) -> float:
        time_ms = self._origins.get(origin, 0)
        return time_ms - self._delay_ms if time_ms else -math.inf

    def record_event(self, event_id: EventId, now: float, origin: str = "") -> None:
        """Record an event of a publisher. Another process of it may have another clock."""
        client_id, time_ms, _, incarnation = event_id
        source = self._publishers.get(client_id)
        if source is None:
            self._publishers[client_id] = PublisherTime(incarnation, time_ms, now, origin)
            if len(self._publishers) > MAX_PUBLISHERS:
                self._publishers.popitem(last=False)
            return
        self._publishers.move_to_end(client_id)
        source.last_event_at, source.origin = now, origin
        if incarnation > source.incarnation:
            source.incarnation, source.time_ms = incarnation, time_ms
        elif incarnation == source.incarnation:
            source.time_ms = max(source.time_ms, time_ms)

    def get(self, client_id: str) -> PublisherTime | None:
        return self._publishers.get(client_id)
