"""Input at the rates of accounts: a publisher beyond its account's rate waits."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from math import inf

import attrs

from broker.config.limits import LimitSettings
from broker.ingest.account_rate import AccountRates, RateLimits
from broker.ingest.input import Input
from broker.ingest.publisher import Publisher
from broker.limit_registry import LimitRegistry
from broker.transport.clock import IClock, IDelayed


@attrs.define(eq=False)
class _Queue:
    """Publishers of one account that wait, the next one first."""

    publishers: dict[Publisher, None] = attrs.field(factory=dict)
    timer: IDelayed | None = None

    def is_before(self, publisher: Publisher) -> bool:
        return bool(self.publishers) and next(iter(self.publishers)) is not publisher


class RatedInput:
    """Ingests documents of sessions, as far as the rates of their accounts allow.

    The rate is checked before a document is matched. A waiting publisher is paused: its documents
    stay in the window of its session, so that its client stops sending. Sessions of one account
    take turns.
    """

    def __init__(
        self, input: Input, settings: LimitSettings, clock: IClock, limit_registry: LimitRegistry
    ) -> None:
        self._input = input
        self._clock = clock
        self.rates = AccountRates(RateLimits.from_settings(settings), clock.seconds, limit_registry)
        self._queues: defaultdict[str, _Queue] = defaultdict(_Queue)

    def ingest_waiting(
        self, publisher: Publisher, max_documents: int, seconds: float = inf
    ) -> None:
        """As `Input.ingest_waiting`, or pause the publisher for some time."""
        account = publisher.identity.account
        rate = self.rates.find(account)
        if rate is None:
            if account in self._queues:
                self._leave_queue(publisher)
            self._input.ingest_waiting(publisher, max_documents, seconds)
            return
        now = self._clock.seconds()
        wait = rate.find_wait(now)
        if wait or self._queues[account].is_before(publisher):
            self.rates.count_wait(rate)
            publisher.pause()
            self._queues[account].publishers[publisher] = None
            self._start_timer(account, wait)
            return
        self._leave_queue(publisher)
        parts = publisher.next_parts(max_documents)
        allowed = rate.count_allowed(chain.from_iterable(each.documents for each in parts), now)
        self._input.ingest_waiting(publisher, max(1, allowed), seconds)
        # Those that wait for a DTD, or have to be sent again, count later.
        taken = (each.documents[: each.submission.appended - each.start] for each in parts)
        rate.take(chain.from_iterable(taken), now)

    def discard_waiting(self, publisher: Publisher) -> None:
        """As `Input.discard_waiting`."""
        if publisher.identity.account in self._queues:
            self._leave_queue(publisher)
        self._input.discard_waiting(publisher)

    def _leave_queue(self, publisher: Publisher) -> None:
        account = publisher.identity.account
        queue = self._queues[account]
        queue.publishers.pop(publisher, None)
        if queue.publishers:
            self._start_timer(account, 0.0)
            return
        if queue.timer is not None and queue.timer.active():
            queue.timer.cancel()
        del self._queues[account]

    def _start_timer(self, account: str, wait: float) -> None:
        queue = self._queues[account]
        if queue.timer is None or not queue.timer.active():
            queue.timer = self._clock.callLater(wait, self._resume_first, account)

    def _resume_first(self, account: str) -> None:
        next(iter(self._queues[account].publishers)).resume()
