"""A job that runs at a fixed interval, and never twice at a time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.transport.clock import IClock


class RegularJob:
    """One job."""

    log = Logger()

    def __init__(
        self,
        clock: IClock,
        every: float,
        begin: Callable[[], Coroutine[Any, Any, None] | None],
    ) -> None:
        """`begin` returns the job, or None where there is nothing to do; `every` is in seconds."""
        self._clock = clock
        self._every = every
        self._begin = begin
        self._due_at = clock.seconds() + every
        self._is_under_way = False

    def look(self) -> None:
        """To be called each second: begin the job if it is due."""
        now = self._clock.seconds()
        if self._is_under_way or now < self._due_at:
            return
        self._due_at = now + self._every
        job = self._begin()
        if job is None:
            return
        self._is_under_way = True
        done = Deferred.fromCoroutine(job)
        done.addErrback(lambda failure: self.log.failure("a regular job failed", failure))
        done.addBoth(self._done)

    def _done(self, _: object) -> None:
        self._is_under_way = False
