"""The receiving half of p2p: received and consumed messages, and the credit of the peer."""

from __future__ import annotations

from collections import deque

from broker.errors import ProtocolError
from broker.transport.p2p.wire import MESSAGE_COST


class Receiver:
    """The receiving half of p2p: counts messages of the peer's incarnation; stores none.

    `window_bytes` bounds the delivered and not yet consumed bytes, those of the previous
    incarnation included.
    """

    def __init__(self, window_bytes: int, ack_delay: float, ack_every: int) -> None:
        self.received = 0  # without a missing one before it
        self.duplicates = 0
        self.window_bytes = window_bytes
        self.ack_at: float | None = None
        self._ack_delay = ack_delay
        self._ack_every = ack_every
        self._unacked = 0
        self._unconsumed: deque[int] = deque()  # costs
        self._received_cost = 0
        self._consumed_cost = 0  # below 0 while messages of a previous incarnation are unconsumed
        self._announced_limit = window_bytes

    @property
    def unconsumed(self) -> int:
        return len(self._unconsumed)

    def accept_message(self, sequence: int, length: int, now: float) -> bool:
        """Return False for a duplicate.

        Raises `ProtocolError` for a missing message, or for more bytes than the credit.
        """
        if sequence <= self.received:
            self.duplicates += 1
            return False
        if sequence != self.received + 1:
            raise ProtocolError(
                f"message {sequence} came after message {self.received}: some are missing"
            )
        cost = length + MESSAGE_COST
        over = self._received_cost + cost > self._announced_limit
        # A message of any size is allowed in an empty window.
        if over and self._received_cost > self._announced_limit - self.window_bytes:
            raise ProtocolError(f"message {sequence} of {length} bytes is more than the credit")
        self.received = sequence
        self._received_cost += cost
        self._unconsumed.append(cost)
        self._unacked += 1
        if self._unacked >= self._ack_every:
            self.ack_at = now
        elif self.ack_at is None:
            self.ack_at = now + self._ack_delay
        return True

    def release_credit(self, count: int, now: float) -> None:
        """Raises ValueError for more messages than were delivered."""
        if not 0 <= count <= len(self._unconsumed):
            raise ValueError(
                f"{count} messages consumed, and {len(self._unconsumed)} were delivered"
            )
        for _ in range(count):
            self._consumed_cost += self._unconsumed.popleft()
        freed = max(0, self._consumed_cost + self.window_bytes) - self._announced_limit
        if freed >= self.window_bytes // 4:
            self.ack_at = now
        elif freed > 0 and not self._unconsumed and self.ack_at is None:
            # The peer may wait for an empty window to send a message larger than the window.
            self.ack_at = now + self._ack_delay

    def announce_credit(self) -> tuple[int, int]:
        self._unacked = 0
        self.ack_at = None
        limit = self._announced_limit = max(0, self._consumed_cost + self.window_bytes)
        return self.received, limit

    def reset(self, now: float) -> None:
        """Restart with a new incarnation of the peer, which needs a limit."""
        self.received = 0
        self._received_cost = 0
        self._consumed_cost = -sum(self._unconsumed)
        self.ack_at = now
