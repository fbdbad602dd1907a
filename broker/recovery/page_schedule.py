"""Schedules the pages of a connection's replays: in turn, and as fast as the connection sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

#: Bound of the pages that are read or not yet sent.
MAX_IN_FLIGHT: Final = 16


class PageSchedule:
    """An id is queued once."""

    def __init__(self) -> None:
        self._waiting: dict[int, None] = {}
        self._reading = 0
        self._unsent = 0
        self._is_paused = False

    def enqueue(self, replay: int) -> None:
        self._waiting[replay] = None

    def start_next(self, may_read: Callable[[int], bool]) -> list[int]:
        """Return the replays to read now. `may_read` returns whether one still needs a page."""
        found = []
        while self._waiting and self._reading + self._unsent < MAX_IN_FLIGHT:
            replay = next(iter(self._waiting))
            del self._waiting[replay]
            if may_read(replay):
                self._reading += 1
                found.append(replay)
        return found

    def finish_read(self) -> None:
        self._reading -= 1
        self._unsent += self._is_paused

    def pause(self) -> None:
        """Stop sending: further pages wait in memory."""
        self._is_paused = True

    def resume(self) -> None:
        """Send again: all pages have left."""
        self._is_paused = False
        self._unsent = 0
