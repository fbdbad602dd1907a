"""Asking a source of seeds, again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.cluster.descriptor import Endpoint
from broker.cluster.discovery.seed_source import ISeedSource
from broker.transport.backoff import backoff_bound
from broker.transport.clock import IClock, IDelayed

#: Seconds between two questions: who has moved is found, and nobody is asked much.
PERIOD = 30.0
#: Seconds until the next one where nobody was found: doubled now and then, up to the other.
SHORTEST_PERIOD = 3.0


class Asking:
    """Asks from `start` to `stop`."""

    log = Logger()

    def __init__(
        self, source: ISeedSource, clock: IClock, found: Callable[[Sequence[Endpoint]], object]
    ) -> None:
        self._source = source
        self._clock = clock
        self._found = found
        self._call: IDelayed | None = None
        self._asked: Deferred[object] | None = None
        self._failing = False
        self._stopped = False
        self._in_vain = 0

    def start(self) -> None:
        """Ask now, and then every now and then."""
        self._call = None
        self._asked = self._source.seeds().addCallbacks(self._answered, self._failed)

    def stop(self) -> None:
        """Ask no more."""
        self._stopped = True
        if self._asked is not None:
            self._asked.cancel()
        if self._call is not None and self._call.active():
            self._call.cancel()

    def _answered(self, seeds: Sequence[Endpoint]) -> None:
        self._failing = False
        self._found(seeds)
        if seeds:
            self._in_vain = 0
            self._again(PERIOD)
        else:
            self._again_in_vain()

    def _failed(self, failure: Failure) -> None:
        if not (self._failing or self._stopped):
            self._failing = True
            self.log.warn("no members were found: {error}", error=failure.getErrorMessage())
        self._again_in_vain()

    def _again_in_vain(self) -> None:
        self._again(backoff_bound(self._in_vain // 2, SHORTEST_PERIOD, PERIOD))
        self._in_vain += 1

    def _again(self, after: float) -> None:
        self._asked = None
        if not self._stopped:
            self._call = self._clock.callLater(after, self.start)
