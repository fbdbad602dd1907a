"""Queues of live events for the subscriptions of a session that is full."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from broker.delivery.commit_share import QueueLimits
from broker.delivery.feed import Feed
from broker.log.chunk import split_by_size
from broker.log.logged_event import LoggedEvent
from broker.streams.bounded_queue import BoundedQueue, Dropped, LostRange, QueueBudget
from broker.streams.coalescing_key import make_key_reader
from broker.streams.queue_policy import DROP_OLDEST, Admission

_MAX_DELIVERY_EVENTS = 256

_Queue: TypeAlias = BoundedQueue[LoggedEvent, Feed]
#: An event and its subscriptions.
QueuedEvent: TypeAlias = tuple[LoggedEvent, list[Feed]]
Loss: TypeAlias = tuple[Feed, str, LostRange]


class Backlog:
    """Queues that share the bounds of a session.

    Subscriptions that drop the oldest events have one queue. Each other subscription has its own,
    except those that read the log instead.
    """

    def __init__(self, limits: QueueLimits) -> None:
        self._delivery_bytes = limits.delivery
        self._budget = QueueBudget(limits.events, limits.bytes, memory=limits.memory)
        self._shared: _Queue = BoundedQueue(DROP_OLDEST, self._budget)
        self._own: dict[Feed, tuple[_Queue, Callable[[LoggedEvent], str | None]]] = {}
        self._turns: deque[_Queue] = deque([self._shared])
        self._failed: list[Feed] = []

    def __len__(self) -> int:
        return self._budget.items

    @property
    def bytes(self) -> int:
        return self._budget.bytes

    @property
    def has_pending(self) -> bool:
        """True if later events must be queued."""
        return self._budget.items > 0 or self._budget.unreported > 0

    def count_for(self, feed: Feed) -> int:
        return self._queue_of(feed).count_for(feed)

    def add_event(self, event: LoggedEvent, feeds: Sequence[Feed]) -> None:
        if not self._own:
            _count_dropped(self._shared.add(event, list(feeds)).dropped)
            return
        shared = []
        for feed in feeds:
            if feed in self._own:
                self._add_to_own(event, feed)
            else:
                shared.append(feed)
        if shared:
            _count_dropped(self._shared.add(event, shared).dropped)

    def _add_to_own(self, event: LoggedEvent, feed: Feed) -> None:
        queue, read_key = self._own[feed]
        added = queue.add(event, [feed], read_key(event))
        _count_dropped(added.dropped)
        if added.admission is Admission.FAILED:
            # It ends at once, and none of its later events is sent.
            feed.outcomes.dropped += 1
            if feed not in self._failed:
                self._failed.append(feed)

    def add_loss(self, feed: Feed, origin: str, lost: LostRange) -> bool:
        """Record a loss behind a subscription's queued events; return False if it has none."""
        queue = self._queue_of(feed)
        if queue.has_pending:
            queue.add_loss(feed, origin, lost)
            return True
        return False

    def take_failed(self) -> list[Feed]:
        """Remove and return subscriptions that must end: their queues were full."""
        failed, self._failed = self._failed, []
        return failed

    def first_serial_for(self, feed: Feed, default: int) -> int:
        """Return the serial of the first event in a subscription's queue, -1 if losses are before
        it, `default` if the queue is empty."""
        queue = self._queue_of(feed)
        if not queue.has_pending:
            return default
        ahead = [] if queue.has_leading_losses else queue.peek(1)
        return ahead[0].serial if ahead else -1

    def take_delivery(self, cuts: Sequence[int] = ()) -> tuple[list[Loss], list[QueuedEvent]]:
        """Remove and return losses to report, and the events behind them for one delivery.

        Events before and behind a serial of `cuts` are not taken together, nor losses with events
        if there are cuts. The queues have turns.
        """
        queue = next(each for each in self._turns if each.has_pending)
        while self._turns[0] is not queue:
            self._turns.rotate(-1)
        self._turns.rotate(-1)
        losses = queue.take_losses()
        if losses and cuts:
            return losses, []
        ahead = queue.peek(_MAX_DELIVERY_EVENTS)
        if ahead and (cut := next((each for each in cuts if each > ahead[0].serial), 0)):
            ahead = [event for event in ahead if event.serial < cut]
        _, end = next(split_by_size(self._delivery_bytes, ahead), (0, 0))
        return losses, queue.take(end)

    def add_feed(self, feed: Feed) -> None:
        """Give a subscription its own queue, if it needs one."""
        if feed.needs_own_queue:
            queue: _Queue = BoundedQueue(feed.policy, self._budget)
            self._own[feed] = queue, make_key_reader(feed.policy)
            self._turns.append(queue)

    def remove_feed(self, feed: Feed) -> None:
        self.drop_events_for(feed)
        own = self._own.pop(feed, None)
        if own is not None:
            own[0].close()
            self._turns.remove(own[0])

    def drop_events_for(self, feed: Feed) -> None:
        feed.outcomes.dropped += self._queue_of(feed).remove_owner(feed)

    def take_events_for(
        self, feed: Feed
    ) -> tuple[list[LoggedEvent], int, list[tuple[str, LostRange]]]:
        """Remove and return the events of a subscription, which will read them from the log.

        Also return the number of those lost behind the first, which it will read too, and the
        losses behind it that are not in the log: (origin, range).
        """
        return self._queue_of(feed).take_items_of(feed)

    def drop_all_events(self) -> None:
        for queue in self._turns:
            _count_dropped(queue.clear())

    def _queue_of(self, feed: Feed) -> _Queue:
        own = self._own.get(feed)
        return self._shared if own is None else own[0]


def _count_dropped(dropped: Sequence[Dropped[LoggedEvent, Feed]]) -> None:
    for each in dropped:
        for feed in each.owners:
            feed.outcomes.dropped += 1
