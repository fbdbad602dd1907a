"""Bounded queue from a reading thread to the publishing loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Generator
from contextlib import suppress
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")

#: The thread blocks while this many items wait.
MAX_WAITING: Final = 1000
_MAX_PORTION: Final = 100


class ReaderThread(Generic[_T]):
    """Runs an iterator in a thread, since it may block; the loop takes its items."""

    def __init__(self, items: Generator[_T, None, None], most: int = MAX_WAITING) -> None:
        self._items = items
        self._loop = asyncio.get_running_loop()
        self._free_slots = threading.Semaphore(most)
        self._ready: deque[_T] = deque()
        self._wake = asyncio.Event()
        self._over = False
        self._cancelled = False
        self._error: BaseException | None = None
        # A thread that blocks on a pipe must not keep the process alive.
        self._thread = threading.Thread(target=self._read_items, name="reading", daemon=True)
        self._thread.start()

    async def next_items(self) -> list[_T]:
        """Return at least one item; an empty list is the end.

        Raises the iterator's exception after its last item.
        """
        while True:
            # Cleared before the check: later items set it again.
            self._wake.clear()
            over = self._over
            portion = [self._ready.popleft() for _ in range(min(len(self._ready), _MAX_PORTION))]
            if portion or over:
                break
            await self._wake.wait()
        for _ in portion:
            self._free_slots.release()
        if not portion and self._error is not None:
            raise self._error
        return portion

    def cancel(self) -> None:
        self._cancelled = True
        self._free_slots.release()

    def _read_items(self) -> None:
        try:
            for item in self._items:
                self._free_slots.acquire()
                if self._cancelled:
                    break
                self._ready.append(item)
                if len(self._ready) == 1:
                    self._wake_loop()
        except BaseException as error:
            self._error = error
        finally:
            self._items.close()
            self._over = True
            self._wake_loop()

    def _wake_loop(self) -> None:
        # The loop may be closed.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake.set)
