"""Retries for missing DTDs, with backoff, for at most `timeout` seconds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeAlias

import attrs
from twisted.python.failure import Failure

from broker.dtd.cache import DtdCache
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.reference import DtdReference
from broker.transport.backoff import backoff_bound
from broker.transport.clock import IClock

#: Beyond that, the oldest request is given up.
MAX_TYPES: Final = 1000
#: Seconds; doubled up to the maximum.
MIN_BACKOFF: Final = 1.0
MAX_BACKOFF: Final = 30.0

#: True: found. False: timeout.
OnSettled: TypeAlias = Callable[[bool], object]


@attrs.define(eq=False)
class _PendingDtd:
    hint: FetchHint
    since: float
    callbacks: list[OnSettled] = attrs.field(factory=list)
    attempts: int = 0
    has_timed_out: bool = False


class PendingDtds:
    """Look-ups that are repeated until they succeed."""

    def __init__(self, dtds: DtdCache, clock: IClock, timeout: float) -> None:
        self._dtds = dtds
        self.clock = clock
        self._timeout = timeout
        self._pending: OrderedDict[DtdReference, _PendingDtd] = OrderedDict()
        self._stopped = False
        self.given_up = 0

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, reference: object) -> bool:
        return reference in self._pending

    def stop(self) -> None:
        self._stopped = True
        self._pending.clear()

    def request(self, reference: DtdReference, hint: FetchHint) -> None:
        known = self._pending.get(reference)
        if known is not None:
            if hint.link is not None:
                known.hint = hint
            return
        if self._stopped or self._dtds.get(reference) is not None:
            return
        if len(self._pending) >= MAX_TYPES:
            _, oldest = self._pending.popitem(last=False)
            _call_waiting(oldest, False)
        pending = self._pending[reference] = _PendingDtd(hint, self.clock.seconds())
        self.clock.callLater(self._timeout, self._give_up, reference, pending)
        self._look_up(reference, pending)

    def call_when_settled(
        self, reference: DtdReference, hint: FetchHint, on_settled: OnSettled
    ) -> None:
        """Call possibly at once, when the DTD is found or the timeout has expired."""
        self.request(reference, hint)
        pending = self._pending.get(reference)
        if pending is None:
            on_settled(self._dtds.get(reference) is not None)
        elif pending.has_timed_out:
            on_settled(False)
        else:
            pending.callbacks.append(on_settled)

    # ------------------------------------------------------------------ inside

    def _look_up(self, reference: DtdReference, pending: _PendingDtd) -> None:
        if self._pending.get(reference) is not pending:
            return
        self._dtds.clear_failure(reference)
        pending.attempts += 1
        self._dtds.lookup(reference, pending.hint).addCallbacks(
            lambda _: self._found(reference, pending),
            lambda failure: self._retry_later(reference, pending, failure),
        )

    def _found(self, reference: DtdReference, pending: _PendingDtd) -> None:
        if self._pending.get(reference) is pending:
            del self._pending[reference]
        _call_waiting(pending, True)

    def _retry_later(self, reference: DtdReference, pending: _PendingDtd, _: Failure) -> None:
        delay = backoff_bound(pending.attempts - 1, MIN_BACKOFF, MAX_BACKOFF)
        self.clock.callLater(delay, self._look_up, reference, pending)

    def _give_up(self, reference: DtdReference, pending: _PendingDtd) -> None:
        if self._pending.get(reference) is pending:
            self.given_up += 1
            pending.has_timed_out = True
            _call_waiting(pending, False)


def _call_waiting(pending: _PendingDtd, found: bool) -> None:
    callbacks, pending.callbacks = pending.callbacks, []
    for on_settled in callbacks:
        on_settled(found)
