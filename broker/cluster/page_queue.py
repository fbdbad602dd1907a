"""Queues of events for nodes that lag behind, with the queue policy of their interest.

A node that misses events reads this node's log in pages. Its queue is the log behind its position.
Where all its interest has one policy other than `block`, the events up to the log's end pass a
bounded queue with that policy, and the pages come from there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, TypeAlias

from broker.cluster.address import Address
from broker.cluster.traffic.frame_range import Range
from broker.event.place import Mark
from broker.log.chunk import split_by_size
from broker.log.logged_event import LoggedEvent
from broker.queue_memory import QueueMemory
from broker.streams.bounded_queue import BoundedQueue, LostRange, QueueBudget
from broker.streams.coalescing_key import make_key_reader
from broker.streams.dropped_count import QUEUE_FULL, DroppedCount
from broker.streams.queue_policy import Admission, IQueuePolicy

#: Further readers get all events.
MOST_QUEUES: Final = 64
#: Seconds without a request; then another reader may have the place.
QUEUE_TIMEOUT: Final = 60.0

#: Consecutive ranges for one reader, each with its events.
Page: TypeAlias = Sequence[tuple[Range, Sequence[LoggedEvent]]]
#: An event, and the queries of the reader's interest that it matches; None: it can not be matched.
WantedEvent: TypeAlias = tuple[LoggedEvent, tuple[int, ...] | None]


class PageQueue:
    """Queue of one flow's events for one reader.

    The owner of a queued event is the rank of its security level, so that losses are counted for
    each.
    """

    def __init__(self, policy: IQueuePolicy, budget: QueueBudget, after: Mark) -> None:
        self.policy = policy
        self.after = self.read_upto = after
        """The next page begins, and the queue ends, behind these marks."""
        self.used_at = 0.0
        self._queue: BoundedQueue[LoggedEvent, int] = BoundedQueue(policy, budget)
        self._read_key = make_key_reader(policy)
        self._is_full = False
        self._sent: tuple[Mark, Page] | None = None
        """The last page and its start, until the reader has it."""

    @property
    def is_empty(self) -> bool:
        return not self._queue.has_pending

    def restart(self, after: Mark) -> None:
        self._queue.clear()
        self._is_full, self._sent = False, None
        self.after = self.read_upto = after

    def close(self) -> None:
        self._queue.close()

    def sent_page(self, after: Mark) -> Page | None:
        """Return the last page, if it starts there: it was lost, or is still on its way."""
        return self._sent[1] if self._sent is not None and self._sent[0] == after else None

    def add_events(self, events: Sequence[WantedEvent], upto: Mark) -> bool:
        """Add the reader's events up to a mark. Return False if the policy `fail` ends it."""
        for event, matches in events:
            key = None if matches is None else self._read_key(event)
            # An event replaces another one only for the same queries.
            key = None if key is None else f"{matches} {key}"
            if self._queue.add(event, [event.level], key).admission is Admission.FAILED:
                self._is_full = True
                return False
            self.read_upto = event.mark
        self.read_upto = upto
        return True

    def take_page(self, reader: Address, max_events: int, max_bytes: int) -> Page:
        """Remove and return the oldest events, with the losses before and between them."""
        start, room, size = self.after, max_events, 0
        page: list[tuple[Range, Sequence[LoggedEvent]]] = []
        while True:
            dropped, lost_upto = _sum_losses(self._queue.take_losses())
            waiting = self._queue.peek(room)
            _, count = next(split_by_size(max_bytes - size, waiting), (0, 0))
            events = [event for event, _ in self._queue.take(count)]
            room -= count
            size += sum([event.size for event in events])
            is_last = self.is_empty
            upto = self.read_upto if is_last else events[-1].mark if events else lost_upto
            assert upto is not None
            if self._is_full:
                dropped, self._is_full = QUEUE_FULL, False
            span = Range(reader, self.after, upto, lost_upto, has_more=True, dropped=dropped)
            page.append((span, events))
            self.after = upto
            if is_last or count < len(waiting) or not room or size >= max_bytes:
                break
        page[-1] = page[-1][0]._replace(has_more=not is_last), page[-1][1]
        self._sent = start, page
        return page


def _sum_losses(
    losses: Sequence[tuple[int, str, LostRange]],
) -> tuple[tuple[DroppedCount, ...], Mark | None]:
    dropped = tuple([DroppedCount(rank, lost.count, lost.is_coalesced) for rank, _, lost in losses])
    return dropped, max([lost.last for _, _, lost in losses], default=None)


class PageQueues:
    """Queues by reader and flow, which share their bounds in equal parts."""

    def __init__(self, max_events: int, max_bytes: int, memory: QueueMemory) -> None:
        self._budget = QueueBudget(max_events, max_bytes, memory=memory)
        self._queues: OrderedDict[tuple[Address, str], PageQueue] = OrderedDict()

    def __len__(self) -> int:
        return len(self._queues)

    def find(
        self, reader: Address, flow: str, policy: IQueuePolicy, after: Mark, now: float
    ) -> PageQueue | None:
        """Return a reader's queue, a new one if necessary; None over the limit."""
        key = reader, flow
        queue = self._queues.get(key)
        if queue is not None and queue.policy != policy:
            self.remove(reader, flow)
            queue = None
        if queue is None:
            if len(self._queues) >= MOST_QUEUES:
                oldest = next(iter(self._queues))
                if self._queues[oldest].used_at + QUEUE_TIMEOUT > now:
                    return None
                self.remove(*oldest)
            queue = self._queues[key] = PageQueue(policy, self._budget, after)
        queue.used_at = now
        self._queues.move_to_end(key)
        return queue

    def remove(self, reader: Address, flow: str) -> None:
        queue = self._queues.pop((reader, flow), None)
        if queue is not None:
            queue.close()
