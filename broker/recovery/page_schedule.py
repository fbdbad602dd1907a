"""Whose page is read next for one connection: in turn, and no more than it takes.

A node may ask for pages of a thousand replays at once. Without this all of them would be read, and
wait in memory for the node to take them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

#: Pages of a connection that are being read, or were since it took the last one: enough that it
#: does not run dry while the next one is read.
MAX_IN_FLIGHT: Final = 16


class PageSchedule:
    """Replays with a page to read, by their ids. No id is taken twice before its turn."""

    def __init__(self) -> None:
        self._waiting: dict[int, None] = {}
        self._reading = 0
        self._unsent = 0
        self._is_paused = False

    def enqueue(self, replay: int) -> None:
        """It has a page to read; it comes behind those that wait."""
        self._waiting[replay] = None

    def start_next(self, may_read: Callable[[int], bool]) -> list[int]:
        """Those whose turn it is. `may_read` says of one that waited whether it still wants it."""
        found = []
        while self._waiting and self._reading + self._unsent < MAX_IN_FLIGHT:
            replay = next(iter(self._waiting))
            del self._waiting[replay]
            if may_read(replay):
                self._reading += 1
                found.append(replay)
        return found

    def finish_read(self) -> None:
        """A page was read, or could not be."""
        self._reading -= 1
        self._unsent += self._is_paused

    def pause(self) -> None:
        """The connection takes no more for now: what is read meanwhile has to wait."""
        self._is_paused = True

    def resume(self) -> None:
        """All that was sent has left."""
        self._is_paused = False
        self._unsent = 0
