"""One merge by time: the events of one rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from broker.event.merging.bursts import Bursts, StreamTime
from broker.event.merging.held_event import HeldEvent
from broker.event.merging.publisher_times import PublisherTimes
from broker.event.merging.vocabulary import Rule

T = TypeVar("T")


class Group(Generic[T]):
    """Bursts and publishers of one rule, merged by time."""

    def __init__(self, rule: Rule, began: float, expects: Callable[[str], bool]) -> None:
        """`expects` is true for streams whose events can arrive."""
        self.bursts: Bursts[T] = Bursts(rule.constraint)
        self._started_at = began
        self._publishers: dict[str, None] = {}
        self._silent_entries = {
            number
            for number, entry in enumerate(rule.order)
            if entry.is_bundle or expects(entry.name)
        }

    def record_publisher(self, client_id: str, lanes: Sequence[int]) -> None:
        self._publishers[client_id] = None
        self._silent_entries.difference_update(lanes)

    def release_ready(
        self, publisher_times: PublisherTimes, now: float, idle: float
    ) -> list[HeldEvent[T]]:
        if not len(self.bursts):
            return []
        return self.bursts.release_ready(self._compute_stream_time(publisher_times, now, idle))

    def _compute_stream_time(
        self, publisher_times: PublisherTimes, now: float, idle: float
    ) -> StreamTime:
        """Ignore publishers silent for `idle` seconds."""
        laggard, least, others_least = "", math.inf, math.inf
        if self._silent_entries and now - self._started_at < idle:
            least = others_least = publisher_times.passed_by_all
        for client_id in list(self._publishers):
            publisher = publisher_times.get(client_id)
            if publisher is None or now - publisher.last_event_at >= idle:
                # Its next event adds it again.
                del self._publishers[client_id]
            elif (time_ms := publisher_times.time_of(publisher)) < least:
                laggard, least, others_least = client_id, time_ms, least
            else:
                others_least = min(others_least, time_ms)
        return StreamTime(least, laggard, others_least)
