"""Stream time: progress of publishers, by their own events and by their nodes.

A publisher's events arrive in order, with TimeStamps that never fall within an incarnation. So
after each event no earlier one will come, on any stream.

Later events of an origin were committed after its stream time. So a silent publisher has passed
that time less the delay from TimeStamp to commit.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

import attrs

from broker.event.event_id import EventId

#: Beyond this the publisher silent for longest is dropped.
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
    def __init__(self, delay: float = 0.0) -> None:
        """`delay`: most seconds from TimeStamp to commit."""
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
        """Return the passed TimeStamp (ms)."""
        return max(source.time_ms, self._passed_time(source.origin))

    def _passed_time(self, origin: str) -> float:
        time_ms = self._origins.get(origin, 0)
        return time_ms - self._delay_ms if time_ms else -math.inf

    def record_event(self, event_id: EventId, now: float, origin: str = "") -> None:
        """Another process of the publisher may have another clock."""
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
