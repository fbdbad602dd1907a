"""Credit for deliveries, in bytes, as a running total per session.

The limit is the bytes that arrived plus the free part of the window. It is sent when a quarter of
the window is free, or the previous limit is used up.
"""

from __future__ import annotations


class DeliveryCredit:
    def __init__(self, window_bytes: int) -> None:
        self._window = window_bytes
        self._unprocessed = 0
        self._arrived = 0
        self._sent_limit = 0

    def begin_session(self) -> int:
        """Return the first limit. Unprocessed deliveries of previous sessions count."""
        self._arrived = 0
        self._sent_limit = self._compute_limit()
        return self._sent_limit

    def add_delivery(self, size: int) -> None:
        self._arrived += size
        self._unprocessed += size

    def add_other(self, size: int) -> None:
        """Count bytes that came by another way than the session."""
        self._unprocessed += size

    @property
    def has_room(self) -> bool:
        return self._unprocessed < self._window

    def release_delivery(self, size: int) -> None:
        self._unprocessed -= size

    def next_limit(self) -> int | None:
        """Return the limit to send now; None while the previous one suffices."""
        limit = self._compute_limit()
        used_up = self._sent_limit <= self._arrived
        if limit - self._sent_limit < (1 if used_up else self._window // 4):
            return None
        self._sent_limit = limit
        return limit

    def _compute_limit(self) -> int:
        return self._arrived + max(0, self._window - self._unprocessed)
