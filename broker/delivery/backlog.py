"""Queue of live events for the transient subscriptions of a session that is full."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

import attrs

from broker.delivery.commit_share import QueueLimits
from broker.delivery.feed import Feed
from broker.log.chunk import split_by_size
from broker.log.logged_event import LoggedEvent

_MAX_DELIVERY_EVENTS = 256


@attrs.define(slots=True, eq=False)
class QueuedEvent:
    event: LoggedEvent
    feeds: list[Feed]


class Backlog:
    """Bounded queue of live events for a full session. The oldest events are dropped and
    reported."""

    def __init__(self, limits: QueueLimits) -> None:
        self._limits = limits
        self._queue: deque[QueuedEvent] = deque()
        self.bytes = 0
        self.has_unreported_drops = False

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def has_pending(self) -> bool:
        """True if later events must be queued."""
        return bool(self._queue) or self.has_unreported_drops

    def count_for(self, feed: Feed) -> int:
        return sum(feed in queued.feeds for queued in self._queue)

    def add_event(self, event: LoggedEvent, feeds: Sequence[Feed]) -> None:
        self._queue.append(QueuedEvent(event, list(feeds)))
        self.bytes += event.size

    def enforce_limits(self) -> None:
        while len(self._queue) > self._limits.events or self.bytes > self._limits.bytes:
            self._drop_oldest()

    def take_delivery(self) -> list[QueuedEvent]:
        """Remove and return the oldest events that fit into one delivery."""
        ahead = [queued.event for queued in islice(self._queue, _MAX_DELIVERY_EVENTS)]
        _, end = next(split_by_size(self._limits.delivery, ahead))
        self.bytes -= sum([event.size for event in ahead[:end]])
        return [self._queue.popleft() for _ in range(end)]

    def drop_events_for(self, feed: Feed) -> None:
        remaining = []
        for queued in self._queue:
            if feed in queued.feeds:
                queued.feeds.remove(feed)
                feed.outcomes.dropped += 1
            if queued.feeds:
                remaining.append(queued)
        self._queue = deque(remaining)
        self.bytes = sum([queued.event.size for queued in remaining])

    def take_events_for(self, feed: Feed) -> list[LoggedEvent]:
        """Remove and return the events of a subscription, which will read them from the log."""
        taken = [queued.event for queued in self._queue if feed in queued.feeds]
        if taken:
            for queued in self._queue:
                if feed in queued.feeds:
                    queued.feeds.remove(feed)
            self._queue = deque(queued for queued in self._queue if queued.feeds)
            self.bytes = sum([queued.event.size for queued in self._queue])
        return taken

    def drop_all_events(self) -> None:
        while self._queue:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        queued = self._queue.popleft()
        self.bytes -= queued.event.size
        for feed in queued.feeds:
            feed.record_drop(queued.event)
            self.has_unreported_drops = True
