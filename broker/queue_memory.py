"""Memory of all queues of a node together.

Below half of the bound each queue has its own bounds only. Beyond that a queue is full if it holds
more than an equal part of the half, so the policies of the largest queues apply first. All queues
together do not exceed the bound, apart from one message of each session.
"""

from __future__ import annotations

from typing import Final

from broker.limit_registry import LimitRegistry

#: Bytes; see `queue.total_bytes`.
DEFAULT_BYTES: Final = 1 << 30
#: Approximate bytes of a queued event beside the event, which queues may share.
ENTRY_BYTES: Final = 512


class QueueMemory:
    """Counts bytes of queued events, each once, and of messages that are not acknowledged.

    Queues are those of clients, and of nodes that read pages of the log.
    """

    def __init__(
        self, max_bytes: int = DEFAULT_BYTES, limit_registry: LimitRegistry | None = None
    ) -> None:
        self.max_bytes = max_bytes
        self.used = 0
        self.holders = 0
        """Queues that hold something."""
        self._shared: dict[int, int] = {}
        """Number of queues by id of their event."""
        self._limit = (limit_registry or LimitRegistry()).add(
            "queue-memory",
            setting="queue.total_bytes",
            bound=lambda: self.max_bytes,
            used=lambda: self.used,
        )

    def allows(self, held: int, size: int) -> bool:
        """Return True if a holder of `held` bytes may hold `size` more."""
        half = self.max_bytes // 2
        if self.used + size <= half:
            return True
        if held + size <= half // max(1, self.holders) and self.used + size <= self.max_bytes:
            return True
        self._limit.count_reached()
        return False

    def could_allow(self, held: int, size: int) -> bool:
        """Return True if a holder that drops all its `held` bytes may hold `size` bytes."""
        return self.used - held + size <= self.max_bytes

    def add_item(self, item: object, size: int) -> None:
        """Count a queued event, which other queues may hold too."""
        queues = self._shared.get(id(item), 0)
        self._shared[id(item)] = queues + 1
        self.used += ENTRY_BYTES if queues else ENTRY_BYTES + size

    def remove_item(self, item: object, size: int) -> None:
        queues = self._shared[id(item)] - 1
        if queues:
            self._shared[id(item)] = queues
            self.used -= ENTRY_BYTES
        else:
            del self._shared[id(item)]
            self.used -= ENTRY_BYTES + size


class HeldBytes:
    """Bytes of one holder that shares nothing, such as a send buffer."""

    def __init__(self, memory: QueueMemory) -> None:
        self._memory = memory
        self._bytes = 0
        self._is_closed = False

    def resize(self, size: int) -> bool:
        """Set the present size; return True if it may grow."""
        memory = self._memory
        if self._is_closed:
            return True
        memory.used += size - self._bytes
        memory.holders += bool(size) - bool(self._bytes)
        self._bytes = size
        # An empty holder always takes a message: nothing else would wake it.
        return not size or memory.allows(size, 0)

    def close(self) -> None:
        """Count nothing from now on."""
        self.resize(0)
        self._is_closed = True
