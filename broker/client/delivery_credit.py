"""How many deliveries may have arrived and wait for the user: credit in bytes, as a running total.

The limit is what has arrived in this session plus the room that is left. It is told to the node
when a quarter of the window was freed, or when the node has used up what it was told.
"""

from __future__ import annotations


class DeliveryCredit:
    """Counts what waits for the user, over sessions, and what one session may send."""

    def __init__(self, window_bytes: int) -> None:
        self._window = window_bytes
        self._unprocessed = 0
        self._arrived = 0
        self._sent_limit = 0

    def begin_session(self) -> int:
        """A session begins anew: its first limit. What waits from former ones counts still."""
        self._arrived = 0
        self._sent_limit = self._compute_limit()
        return self._sent_limit

    def add_delivery(self, size: int) -> None:
        """A delivery has arrived."""
        self._arrived += size
        self._unprocessed += size

    def release_delivery(self, size: int) -> None:
        """A delivery was taken, or is not wanted."""
        self._unprocessed -= size

    def next_limit(self) -> int | None:
        """The limit to tell the node now; None while what it knows is good enough."""
        limit = self._compute_limit()
        used_up = self._sent_limit <= self._arrived
        if limit - self._sent_limit < (1 if used_up else self._window // 4):
            return None
        self._sent_limit = limit
        return limit

    def _compute_limit(self) -> int:
        return self._arrived + max(0, self._window - self._unprocessed)
