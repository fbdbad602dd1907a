"""Periodic polling of a source of seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.cluster.descriptor import Endpoint
from broker.cluster.discovery.seed_source import ISeedSource
from broker.transport.backoff import backoff_bound
from broker.transport.clock import IClock, IDelayed

#: Seconds; finds moved nodes at little cost.
PERIOD = 30.0
#: Seconds after an empty poll; doubled after every second one.
SHORTEST_PERIOD = 3.0


class SeedPoller:
    """Polls a source of seeds from `start` to `stop`."""

    log = Logger()

    def __init__(
        self,
        source: ISeedSource,
        clock: IClock,
        found: Callable[[Sequence[Endpoint]], object],
        failure: str = "discovery found no members",
    ) -> None:
        """`failure` begins the warning about the first of failed polls."""
        self._failure = failure
        self._source = source
        self._clock = clock
        self._found = found
        self._call: IDelayed | None = None
        self._pending: Deferred[object] | None = None
        self._is_failing = False
        self._stopped = False
        self._empty_polls = 0
        self._polled_at = 0.0

    def start(self) -> None:
        self._call = None
        self._polled_at = self._clock.seconds()
        self._pending = self._source.find_seeds().addCallbacks(self._seeds_found, self._poll_failed)

    def stop(self) -> None:
        self._stopped = True
        if self._pending is not None:
            self._pending.cancel()
        if self._call is not None and self._call.active():
            self._call.cancel()

    def hasten(self) -> None:
        """Let the next poll come `SHORTEST_PERIOD` after the last one: the seeds do not answer."""
        if self._call is not None and self._call.active():
            self._call.cancel()
            due = self._polled_at + SHORTEST_PERIOD - self._clock.seconds()
            self._schedule_poll(max(0.0, due))

    def _seeds_found(self, seeds: Sequence[Endpoint]) -> None:
        self._is_failing = False
        self._found(seeds)
        if seeds:
            self._empty_polls = 0
            self._schedule_poll(PERIOD)
        else:
            self._poll_sooner()

    def _poll_failed(self, failure: Failure) -> None:
        if not (self._is_failing or self._stopped):
            self._is_failing = True
            self.log.warn("{begin}: {error}", begin=self._failure, error=failure.getErrorMessage())
        self._poll_sooner()

    def _poll_sooner(self) -> None:
        self._schedule_poll(backoff_bound(self._empty_polls // 2, SHORTEST_PERIOD, PERIOD))
        self._empty_polls += 1

    def _schedule_poll(self, after: float) -> None:
        self._pending = None
        if not self._stopped:
            self._call = self._clock.callLater(after, self.start)
