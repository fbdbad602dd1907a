"""The threads of a node: one that writes the log, one that reads it, some for files and secrets.

A core never sees a thread; what runs off the reactor comes back to it as a Deferred, in order per
thread.
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
    """Where a node's blocking calls run."""

    def write(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        """Run on the thread that writes the log: one call at a time, in order."""

    def read(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        """Run on the thread that reads the log: one call at a time, in order."""

    def run_in_pool(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        """Run on any other thread, perhaps beside other calls."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


class WorkerThread:
    """One thread that runs calls in order; each result comes back to the reactor as a Deferred.

    It costs a queue and one wake-up of the reactor for a call, a third of what a pool costs. Calls
    made before `start` wait for it.
    """

    def __init__(self, reactor: Any, name: str) -> None:
        self._reactor = reactor
        self._calls: SimpleQueue[tuple[Deferred[Any], Callable[..., Any], Any] | None]
        self._calls = SimpleQueue()
        self._thread = Thread(target=self._run, name=name)

    def __call__(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        """Run a call on the thread, behind those before it."""
        result: Deferred[Any] = Deferred()
        self._calls.put((result, call, args))
        return result

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Wait until all calls have run, and end the thread."""
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
            # Nothing of a call stays here while the thread waits for the next.
            del item, result, call, args
            value = None


class ReactorThreads:
    """Real threads, whose results come back to a reactor."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._writer = WorkerThread(reactor, "log-writer")
        self._reader = WorkerThread(reactor, "log-reader")
        self._pool = ThreadPool(0, 2, name="files")
        self.write = self._writer
        self.read = self._reader

    def run_in_pool(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        """See `Threads`."""
        return deferToThreadPool(self._reactor, self._pool, call, *args)

    def start(self) -> None:
        """Start them."""
        for each in (self._writer, self._reader, self._pool):
            each.start()

    def stop(self) -> None:
        """Wait for what they do, and end them."""
        for each in (self._writer, self._reader, self._pool):
            each.stop()
