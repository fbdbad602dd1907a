"""Ctrl-C and SIGTERM as an awaitable request; the second signal kills."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

_T = TypeVar("_T")

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stop:
    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self.signal: int | None = None

    def __bool__(self) -> bool:
        return self._requested.is_set()

    def request(self, number: int | None = None) -> None:
        self.signal = number if self.signal is None else self.signal
        self._requested.set()

    async def run_or_cancel(self, work: Awaitable[_T]) -> _T | None:
        """Return None if the stop comes first, which cancels `work`."""
        task = asyncio.ensure_future(work)
        requested = asyncio.ensure_future(self._requested.wait())
        try:
            await asyncio.wait({task, requested}, return_when=asyncio.FIRST_COMPLETED)
            return await task if task.done() else None
        finally:
            task.cancel()
            requested.cancel()

    async def pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._requested.wait(), seconds)
        except TimeoutError:
            pass

    @property
    def exit_status(self) -> int:
        """Status for the shell; 0 without a signal."""
        return 0 if self.signal is None else 128 + self.signal


@contextmanager
def stop_on_signals(signals: Sequence[int] = SIGNALS) -> Iterator[Stop]:
    """Yield a `Stop` that signals trigger. Enter it where an asyncio loop runs."""
    loop = asyncio.get_running_loop()
    stop = Stop()

    def requested(number: int) -> None:
        # The next signal kills.
        restore()
        stop.request(number)

    def restore() -> None:
        for each in signals:
            loop.remove_signal_handler(each)

    for each in signals:
        loop.add_signal_handler(each, requested, each)
    try:
        yield stop
    finally:
        restore()
