"""Ctrl-C and SIGTERM as something that a command can await, once; the second time they kill."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

_T = TypeVar("_T")

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether the user wants an end, and by which signal."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self.signal: int | None = None

    def __bool__(self) -> bool:
        return self._requested.is_set()

    def request(self, number: int | None = None) -> None:
        """Want it, because of a signal or for a reason of one's own."""
        self.signal = number if self.signal is None else self.signal
        self._requested.set()

    async def run_or_cancel(self, work: Awaitable[_T]) -> _T | None:
        """The result of `work`; None if an end is requested before it is done, which cancels it."""
        task = asyncio.ensure_future(work)
        requested = asyncio.ensure_future(self._requested.wait())
        try:
            await asyncio.wait({task, requested}, return_when=asyncio.FIRST_COMPLETED)
            return await task if task.done() else None
        finally:
            task.cancel()
            requested.cancel()

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until an end is requested."""
        try:
            await asyncio.wait_for(self._requested.wait(), seconds)
        except TimeoutError:
            pass

    @property
    def exit_status(self) -> int:
        """What a shell expects of a process that a signal ended; 0 if there was none."""
        return 0 if self.signal is None else 128 + self.signal


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """A `Stop` that signals trigger; to be entered where an asyncio loop runs."""
    loop = asyncio.get_running_loop()
    stop = Stop()

    def requested(number: int) -> None:
        # From now on they do again what they do by default, for who is not patient.
        restore()
        stop.request(number)

    def restore() -> None:
        for each in SIGNALS:
            loop.remove_signal_handler(each)

    for each in SIGNALS:
        loop.add_signal_handler(each, requested, each)
    try:
        yield stop
    finally:
        restore()
