"""Threads of a node: one writes the log, one reads it, one writes files, a pool does secrets.

Cores run on the reactor's thread; results return there, in order per thread.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool


class Threads(Protocol):
    """Runs a node's blocking calls."""

    def write(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        """Run on the thread that writes the log: one call at a time, in order."""

    def read(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        """Run on the thread that reads the log: one call at a time, in order."""

    def write_file(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        """Run on the thread that writes files for which nobody waits: one call at a time, in
        order. Its user bounds the calls that have not ended."""

    def run_in_pool(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        """Run on a thread of the pool, possibly in parallel to other calls. Only logins use it."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


class WorkerThread:
    """A thread that runs calls in order; results return to the reactor.

    A call costs a third of one in a pool. Calls made before `start` wait for it.
    """

    def __init__(self, reactor: Any, name: str) -> None:
        self._reactor = reactor
        self._calls: SimpleQueue[tuple[Deferred[Any], Callable[..., Any], Any] | None]
        self._calls = SimpleQueue()
        self._thread = Thread(target=self._run, name=name)

    def __call__(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        result: Deferred[Any] = Deferred()
        self._calls.put((result, call, args))
        return result

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._calls.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        from_thread = self._reactor.callFromThread
        while (item := self._calls.get()) is not None:
            result, call, args = item
            try:
                value = call(*args)
            except BaseException:
                from_thread(result.errback, Failure())
            else:
                from_thread(result.callback, value)
            # Release the call's objects during the wait.
            del item, result, call, args
            value = None


class ReactorThreads:
    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._writer = WorkerThread(reactor, "log-writer")
        self._reader = WorkerThread(reactor, "log-reader")
        self._file_writer = WorkerThread(reactor, "file-writer")
        self._pool = ThreadPool(0, 2, name="secrets")
        self.write = self._writer
        self.read = self._reader
        self.write_file = self._file_writer

    def run_in_pool(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        return deferToThreadPool(self._reactor, self._pool, call, *args)

    def start(self) -> None:
        for each in (self._writer, self._reader, self._file_writer, self._pool):
            each.start()

    def stop(self) -> None:
        for each in (self._writer, self._reader, self._file_writer, self._pool):
            each.stop()
