"""Publications that are not acknowledged yet (P8, Q9).

If the node could take nothing of a batch, it and all later ones are sent again in order, once
everything sent is answered: an answer names a batch, not one of its copies.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from sys import maxsize
from typing import Any, Final, TypeAlias

import attrs

from broker.client.received import Receipt
from broker.errors import BadEnvelope, BrokerError, Overloaded, ProtocolError, TooLarge, from_wire
from broker.event.envelope import event_time_problem
from broker.event.event_id import EventId
from broker.event.place import Place
from broker.wire.event_batch import encode_batch
from broker.wire.messages import STATE_VERSION, Published

BATCH_EVENTS = 1000
BATCH_BYTES = 256 * 1024
#: 5 bytes for each document, 9 for its time, and headers.
_FRAME_OVERHEAD: Final = 14 * BATCH_EVENTS + 1024
#: For an event and for a frame, in bytes.
Limits: TypeAlias = tuple[int, int]
NO_LIMITS: Final[Limits] = (maxsize, maxsize)
#: Sent documents are in memory twice.
MAX_UNANSWERED_BYTES = 8 << 20


def too_large_error(document: bytes, limit: int) -> TooLarge:
    return TooLarge(f"the event has {len(document)} bytes, the node takes at most {limit}")


@attrs.define(eq=False)
class _Batch:
    number: int
    documents: list[bytes] = attrs.field(factory=list)
    ids: list[EventId] = attrs.field(factory=list)
    times: list[int | None] = attrs.field(factory=list)
    waiters: list[Any] = attrs.field(factory=list)
    size: int = 0
    sent: bool = False


class Outbox:
    """Bounded queue of unacknowledged batches; when full, `add` raises `Overloaded`."""

    def __init__(self, max_events: int, max_bytes: int) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._batch_bytes = BATCH_BYTES
        self._pending: deque[_Batch] = deque()
        self._next_number = 1
        self._sent_batches = 0
        """The oldest so many batches are sent."""
        self._unanswered = 0
        self._is_requeued = False
        self._sent_bytes = 0
        self.events = 0
        self.bytes = 0

    def add(self, document: bytes, event_id: EventId, waiter: Any, time: int | None = None) -> None:
        """Queue an event with its own time. `waiter`, any object, is returned with the result.

        Raises `TooLarge` for an event that does not fit into an empty outbox, and `BadEnvelope` for
        a time out of range.
        """
        if time is not None and (problem := event_time_problem(time)):
            raise BadEnvelope(problem)
        if len(document) > self._max_bytes:
            raise TooLarge(
                f"the event has {len(document)} bytes, the outbox holds at most {self._max_bytes}"
            )
        if self.events >= self._max_events or self.bytes + len(document) > self._max_bytes:
            raise Overloaded(
                f"the outbox holds {self.events} events, {self.bytes} bytes: wait for receipts"
            )
        self._append(document, event_id, waiter, time)
        self.events += 1
        self.bytes += len(document)

    def _append(self, document: bytes, event_id: EventId, waiter: Any, time: int | None) -> None:
        last = self._pending[-1] if self._pending else None
        if (
            last is None
            or last.sent
            or len(last.documents) >= BATCH_EVENTS
            or last.size + len(document) > self._batch_bytes
        ):
            last = _Batch(self._next_number)
            self._next_number += 1
            self._pending.append(last)
        last.documents.append(document)
        last.ids.append(event_id)
        last.waiters.append(waiter)
        last.times.append(time)
        last.size += len(document)

    def next_unsent(self, version: int = STATE_VERSION) -> bytes | None:
        """Return the PUBLISH message of the oldest unsent batch, which is sent then.

        Nodes of earlier versions get no times.
        """
        if (self._is_requeued and self._unanswered) or self._sent_bytes >= MAX_UNANSWERED_BYTES:
            return None
        self._is_requeued = False
        for batch in itertools.islice(self._pending, self._sent_batches, None):
            batch.sent = True
            self._sent_batches += 1
            self._sent_bytes += batch.size
            self._unanswered += 1
            times = batch.times if version >= STATE_VERSION else ()
            return encode_batch(batch.number, batch.documents, times)
        return None

    @property
    def has_unsent(self) -> bool:
        return self._sent_batches < len(self._pending)

    @property
    def can_resend(self) -> bool:
        return self._is_requeued and not self._unanswered

    def settle_batch(self, published: Published) -> list[tuple[Any, Receipt | BrokerError]]:
        """Return (waiter, result) of each event of the oldest batch.

        Raises `ProtocolError`, and settles nothing, if the answer does not fit it.
        """
        if not self._sent_batches or self._pending[0].number != published.batch:
            raise ProtocolError(f"the node answered batch {published.batch} out of order")
        batch = self._pending[0]
        refused = dict(published.refused)
        duplicates = set(published.duplicates)
        reported = refused.keys() | duplicates
        count = len(batch.documents)
        if published.accepted + len(reported) != count or max(reported, default=0) >= count:
            raise ProtocolError(f"the answer to batch {batch.number} does not cover all its events")
        if published.accepted and not published.first:
            raise ProtocolError("the node accepted events without giving a place")
        self._pending.popleft()
        self._sent_batches -= 1
        self._sent_bytes -= batch.size
        self._unanswered -= 1
        self.events -= len(batch.documents)
        self.bytes -= batch.size
        later = dict(published.later)
        origin, epoch, offset = published.first[0] if published.first else ("", 0, 0)
        results: list[tuple[Any, Receipt | BrokerError]] = []
        for index, (event_id, waiter) in enumerate(zip(batch.ids, batch.waiters, strict=True)):
            if index in refused:
                results.append((waiter, from_wire(refused[index])))
            elif index in duplicates:
                results.append((waiter, Receipt(event_id, None, duplicate=True)))
            else:
                epoch, offset = later.get(index, (epoch, offset))
                results.append((waiter, Receipt(event_id, Place(origin, epoch, offset))))
                offset += 1
        return results

    def requeue_from(self, number: int) -> None:
        """Send batch `number` and all later ones again: the node took nothing of them."""
        if not self._unanswered:
            raise ProtocolError(f"the node returned batch {number}, which was not sent")
        self._unanswered -= 1
        self._is_requeued = True
        self._mark_unsent(number)

    def requeue_all(self) -> None:
        self._unanswered = 0
        self._is_requeued = False
        self._mark_unsent(0)

    def apply_limits(
        self, max_event_bytes: int, max_frame_bytes: int
    ) -> list[tuple[Any, BrokerError]]:
        """Fit unsent batches to the limits of a node that has received none of them.

        Returns (waiter, error) of each event that is too large: it would break each connection.
        """
        self._batch_bytes = max(1, min(BATCH_BYTES, max_frame_bytes - _FRAME_OVERHEAD))
        if all(
            batch.size <= self._batch_bytes
            or (len(batch.documents) == 1 and batch.size <= max_event_bytes)
            for batch in self._pending
        ):
            return []
        return self.refuse_unsent(
            lambda document: (
                None
                if len(document) <= max_event_bytes
                else too_large_error(document, max_event_bytes)
            )
        )

    def has_sent(self, is_concerned: Callable[[bytes], bool]) -> bool:
        """Return whether a sent event without an answer is concerned."""
        sent = itertools.islice(self._pending, self._sent_batches)
        return any(is_concerned(document) for batch in sent for document in batch.documents)

    def refuse_unsent(
        self, find_error: Callable[[bytes], BrokerError | None]
    ) -> list[tuple[Any, BrokerError]]:
        """Remove unsent events; return (waiter, error) of each."""
        pending, self._pending = self._pending, deque()
        refused: list[tuple[Any, BrokerError]] = []
        for batch in pending:
            if batch.sent:
                self._pending.append(batch)
                continue
            for document, event_id, waiter, time in zip(
                batch.documents, batch.ids, batch.waiters, batch.times, strict=True
            ):
                error = find_error(document)
                if error is None:
                    self._append(document, event_id, waiter, time)
                    continue
                self.events -= 1
                self.bytes -= len(document)
                refused.append((waiter, error))
        return refused

    def _mark_unsent(self, number: int) -> None:
        for batch in self._pending:
            if batch.number >= number and batch.sent:
                batch.sent = False
                self._sent_batches -= 1
                self._sent_bytes -= batch.size

    def fail_all(self) -> list[Any]:
        waiters = [waiter for batch in self._pending for waiter in batch.waiters]
        self._pending.clear()
        self._sent_batches = self._sent_bytes = self._unanswered = 0
        self.events = self.bytes = 0
        return waiters
