"""The sending half of p2p: messages not yet acknowledged, and the credit for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from broker.errors import Overloaded, ProtocolError
from broker.queue_memory import HeldBytes
from broker.transport.p2p.wire import MESSAGE_COST


class Sender:
    """The sending half of p2p: messages from submission to acknowledgement.

    Messages in `unacked` have been sent on this connection, those in `waiting` have not. Sizes are
    costs: the length of a message and `MESSAGE_COST`.
    """

    def __init__(self, buffer_bytes: int, held: HeldBytes | None = None) -> None:
        """`held` counts `buffered` in the memory of all queues, and may stop its growth."""
        self._held = held
        self.acked = 0
        self.sent = 0  # to the peer's incarnation
        self.resent = 0
        self.buffered = 0
        self.credit_limit = 0
        self.peer_window = 0
        self._buffer_bytes = buffer_bytes
        self._most_writable = buffer_bytes // 2
        self._unacked: deque[bytes] = deque()
        self.waiting: deque[bytes] = deque()
        self._waiting_cost = 0
        self._sent_cost = 0  # of messages 1 to `sent`: compared with `credit_limit`
        self._ever_sent = 0
        self.is_writable = True
        """False from half of the buffer, until it falls below a quarter. See `reserve_room`. False
        too while all queues together leave no room for more."""

    def __len__(self) -> int:
        return len(self._unacked) + len(self.waiting)

    def submit(self, messages: Sequence[bytes], *, is_open: bool) -> bool:
        """Accept messages. Return True if the connection and the credit allow to send them all now.

        Raises `Overloaded`, and accepts none, if there is no room for all.
        """
        cost = sum(map(len, messages)) + MESSAGE_COST * len(messages)
        if self.buffered + cost > self._buffer_bytes:
            raise Overloaded(
                f"{self.buffered} of {self._buffer_bytes} bytes wait to be acknowledged; "
                f"there is no room for {cost} more"
            )
        self.buffered += cost
        if not self._count_held() or self.buffered > self._most_writable:
            self.is_writable = False
        # `take_affordable` counts messages repeated after a rewind.
        must_wait = not is_open or self.waiting or self._ever_sent > self.sent
        if must_wait or self._sent_cost + cost > self.credit_limit:
            self.waiting.extend(messages)
            self._waiting_cost += cost
            return False
        self._unacked.extend(messages)
        self._sent_cost += cost
        self.sent += len(messages)
        return True

    def reserve_room(self, *, is_open: bool) -> None:
        """Use three quarters of the buffer while the connection is open.

        So there is room for new messages while those of an outage leave.
        """
        self._most_writable = self._buffer_bytes // 4 * (3 if is_open else 2)
        if is_open:
            self.is_writable = self._count_held() and self.buffered <= self._most_writable

    def drop_waiting(self) -> None:
        """Drop the messages that this connection has not carried. The peer has none of them."""
        self.buffered -= self._waiting_cost
        self._waiting_cost = 0
        self.waiting.clear()
        self._ever_sent = min(self._ever_sent, self.sent)
        self.is_writable = self._count_held() and self.buffered <= self._most_writable

    def release_memory(self) -> None:
        """Count nothing any more."""
        if self._held is not None:
            self._held.close()

    def _count_held(self) -> bool:
        """Return True if the memory of all queues has room for more."""
        return self._held is None or self._held.resize(self.buffered)

    def acknowledge(self, received: int) -> None:
        """Raises `ProtocolError` if `received` was never sent."""
        if received <= self.acked:
            return
        if received > self.sent:
            raise ProtocolError(
                f"the peer acknowledges message {received}, and {self.sent} is the last one sent"
            )
        freed = 0
        for _ in range(received - self.acked):
            freed += len(self._unacked.popleft()) + MESSAGE_COST
        self.buffered -= freed
        self.acked = received
        if self._count_held() and self.buffered < self._buffer_bytes // 4:
            self.is_writable = True

    def take_affordable(self) -> tuple[int, list[bytes]]:
        """Also return the first sequence number."""
        first = self.sent + 1
        if not self.waiting:
            return first, []
        if self._sent_cost + self._waiting_cost <= self.credit_limit:
            batch = list(self.waiting)
            self.waiting.clear()
            cost = self._waiting_cost
        else:
            batch, cost = self._affordable()
        self._waiting_cost -= cost
        self._sent_cost += cost
        self._unacked.extend(batch)
        if self._ever_sent > self.sent:
            self.resent += min(self._ever_sent - self.sent, len(batch))
        self.sent += len(batch)
        return first, batch

    def _affordable(self) -> tuple[list[bytes], int]:
        batch: list[bytes] = []
        credit = self.credit_limit - self._sent_cost
        spent = 0
        # A larger message than the window is sent into an empty one.
        if self._sent_cost <= self.credit_limit - self.peer_window:
            batch.append(self.waiting.popleft())
            spent = len(batch[0]) + MESSAGE_COST
        while self.waiting:
            cost = len(self.waiting[0]) + MESSAGE_COST
            if spent + cost > credit:
                break
            batch.append(self.waiting.popleft())
            spent += cost
        return batch, spent

    def rewind(self, received: int) -> None:
        """Continue on a new connection, and send messages after `received` again.

        Raises `ProtocolError` if that is more than was sent, or less than was acknowledged.
        """
        if received < self.acked:
            raise ProtocolError(
                f"the peer acknowledged message {self.acked}, and has {received} now"
            )
        self.acknowledge(received)
        rewound_cost = sum(map(len, self._unacked)) + MESSAGE_COST * len(self._unacked)
        self.waiting.extendleft(reversed(self._unacked))
        self._unacked.clear()
        self._waiting_cost += rewound_cost
        self._sent_cost -= rewound_cost
        self._ever_sent = max(self._ever_sent, self.sent)
        self.sent = received

    def reset(self) -> int:
        """Return the count of dropped messages."""
        dropped = len(self)
        self.is_writable = True
        self._unacked.clear()
        self.waiting.clear()
        self.buffered = self._waiting_cost = self._sent_cost = 0
        self.acked = self.sent = self._ever_sent = 0
        self._count_held()
        return dropped
