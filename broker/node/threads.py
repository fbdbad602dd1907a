"""The threads of a node: one that writes the log, one that reads it, some for files and secrets.

A core never sees a thread; what runs off the reactor comes back to it as a Deferred, in order per
thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool


class Threads(Protocol):
    """Where a node's blocking calls run."""

    def write(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        """Run on the thread that writes the log: one call at a time, in order."""

    def read(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        """Run on the thread that reads the log: one call at a time, in order."""

    def elsewhere(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        """Run on any other thread, perhaps beside other calls."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


class ReactorThreads:
    """Real threads, whose results come back to a reactor."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._writer = ThreadPool(1, 1, name="log-writer")
        self._reader = ThreadPool(1, 1, name="log-reader")
        self._others = ThreadPool(0, 2, name="files")

    def write(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        """See `Threads`."""
        return deferToThreadPool(self._reactor, self._writer, call, *args)

    def read(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        """See `Threads`."""
        return deferToThreadPool(self._reactor, self._reader, call, *args)

    def elsewhere(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        """See `Threads`."""
        return deferToThreadPool(self._reactor, self._others, call, *args)

    def start(self) -> None:
        """Start them."""
        for pool in (self._writer, self._reader, self._others):
            pool.start()

    def stop(self) -> None:
        """Wait for what they do, and end them."""
        for pool in (self._writer, self._reader, self._others):
            pool.stop()
