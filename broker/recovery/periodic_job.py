"""A job that runs at an interval, and never twice at a time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.transport.clock import IClock


class PeriodicJob:
    log = Logger()

    def __init__(
        self,
        clock: IClock,
        interval: float,
        start_job: Callable[[], Coroutine[Any, Any, None] | None],
    ) -> None:
        """`start_job` returns None without work. `interval` is in seconds."""
        self._clock = clock
        self._interval = interval
        self._start_job = start_job
        self._due_at = clock.seconds() + interval
        self._is_running = False

    def run_if_due(self) -> None:
        """Call it each second."""
        now = self._clock.seconds()
        if self._is_running or now < self._due_at:
            return
        self._due_at = now + self._interval
        job = self._start_job()
        if job is None:
            return
        self._is_running = True
        done = Deferred.fromCoroutine(job)
        done.addErrback(lambda failure: self.log.failure("a periodic job failed", failure))
        done.addBoth(self._finish)

    def _finish(self, _: object) -> None:
        self._is_running = False
