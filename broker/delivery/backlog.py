"""Live events that a session could not take, for its transient subscriptions."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

import attrs

from broker.delivery.feed import Feed
from broker.delivery.outgoing import QueueLimits
from broker.log.chunk import split_by_size
from broker.log.logged_event import LoggedEvent

#: Most events that are looked at for one delivery.
_LOOK_AHEAD = 256


@attrs.define(slots=True, eq=False)
class Outgoing:
    """An event that waits, with the subscriptions that it is for."""

    event: LoggedEvent
    feeds: list[Feed]


class Backlog:
    """The queue of one link: when it is full the oldest are dropped, counted, and told later."""

    def __init__(self, limits: QueueLimits) -> None:
        self._limits = limits
        self._queue: deque[Outgoing] = deque()
        self.bytes = 0
        self.untold = False
        """Something was dropped, and its subscriber does not know yet."""

    def __len__(self) -> int:
        """How many events wait."""
        return len(self._queue)

    @property
    def is_owed(self) -> bool:
        """Whether events wait, or a drop that was not reported: later events go behind them."""
        return bool(self._queue) or self.untold

    def waiting_for(self, feed: Feed) -> int:
        """How many of them are for this subscription."""
        return sum(feed in one.feeds for one in self._queue)

    def add(self, event: LoggedEvent, feeds: Sequence[Feed]) -> None:
        """An event waits for its subscriptions, of which there is one at least."""
        self._queue.append(Outgoing(event, list(feeds)))
        self.bytes += event.size

    def keep_to_limits(self) -> None:
        """Drop the oldest while there are too many."""
        while len(self._queue) > self._limits.events or self.bytes > self._limits.bytes:
            self._drop_oldest()

    def take(self) -> list[Outgoing]:
        """The oldest, as many as make one delivery; they wait no more."""
        ahead = [one.event for one in islice(self._queue, _LOOK_AHEAD)]
        _, end = next(split_by_size(self._limits.delivery, ahead))
        self.bytes -= sum([event.size for event in ahead[:end]])
        return [self._queue.popleft() for _ in range(end)]

    def drop_for(self, feed: Feed) -> None:
        """A subscription is over: nothing waits for it any more."""
        kept = []
        for one in self._queue:
            if feed in one.feeds:
                one.feeds.remove(feed)
                feed.outcomes.dropped += 1
            if one.feeds:
                kept.append(one)
        self._queue = deque(kept)
        self.bytes = sum([one.event.size for one in kept])

    def take_back(self, feed: Feed) -> list[LoggedEvent]:
        """The events that wait for a subscription, which reads them from the log instead."""
        taken = [one.event for one in self._queue if feed in one.feeds]
        if taken:
            for one in self._queue:
                if feed in one.feeds:
                    one.feeds.remove(feed)
            self._queue = deque(one for one in self._queue if one.feeds)
            self.bytes = sum([one.event.size for one in self._queue])
        return taken

    def drop_all(self) -> None:
        """Nobody is left to wait."""
        while self._queue:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        one = self._queue.popleft()
        self.bytes -= one.event.size
        for feed in one.feeds:
            feed.drop(one.event)
            self.untold = True
