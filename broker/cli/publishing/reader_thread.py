"""Bounded queue from a reading thread to the publishing loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")

#: The thread blocks while this many items wait.
MAX_WAITING: Final = 1000
#: Bytes of the items that wait; one item may be larger.
MAX_WAITING_BYTES: Final = 16 << 20
_MAX_PORTION: Final = 100


class ReaderThread(Generic[_T]):
    """Runs an iterator in a thread, since it may block; the loop takes its items."""

    def __init__(
        self,
        items: Generator[_T, None, None],
        most: int = MAX_WAITING,
        *,
        size_of: Callable[[_T], int] = lambda _: 0,
        most_bytes: int = MAX_WAITING_BYTES,
        is_portion_end: Callable[[_T], bool] = lambda _: False,
    ) -> None:
        """The thread blocks while `most` items or `most_bytes` of them wait.

        Another thread continues after the end of a portion: libxml2 frees the names of documents
        with the thread that has parsed them.
        """
        self._items = items
        self._loop = asyncio.get_running_loop()
        self._most = most
        self._size_of = size_of
        self._most_bytes = most_bytes
        self._is_portion_end = is_portion_end
        self._waiting = self._waiting_bytes = 0
        self._space = threading.Condition()
        self._ready: deque[_T] = deque()
        self._wake = asyncio.Event()
        self._over = False
        self._cancelled = False
        self._error: BaseException | None = None
        self._start_thread()

    def _start_thread(self) -> None:
        # A thread that blocks on a pipe must not keep the process alive.
        threading.Thread(target=self._read_portion, name="reading", daemon=True).start()

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
        with self._space:
            self._waiting -= len(portion)
            self._waiting_bytes -= sum(map(self._size_of, portion))
            self._space.notify()
        if not portion and self._error is not None:
            raise self._error
        return portion

    def cancel(self) -> None:
        with self._space:
            self._cancelled = True
            self._space.notify()

    def _read_portion(self) -> None:
        try:
            for item in self._items:
                if not self._await_space(self._size_of(item)):
                    break
                self._ready.append(item)
                if len(self._ready) == 1:
                    self._wake_loop()
                if self._is_portion_end(item):
                    self._start_thread()
                    return
        except BaseException as error:
            self._error = error
        self._items.close()
        self._over = True
        self._wake_loop()

    def _await_space(self, size: int) -> bool:
        """Return False if the reading was cancelled."""

        def has_space() -> bool:
            fits = not self._waiting or self._waiting_bytes + size <= self._most_bytes
            return self._cancelled or (self._waiting < self._most and fits)

        with self._space:
            self._space.wait_for(has_space)
            self._waiting += 1
            self._waiting_bytes += size
            return not self._cancelled

    def _wake_loop(self) -> None:
        # The loop may be closed.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake.set)
