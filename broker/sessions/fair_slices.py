"""Time slices of the reactor, which accounts share in turn.

All pieces of work share one slice in each turn of the reactor, so their number does not delay other
work. After a piece that takes longer than a slice, other work has as much time. A holder is an
account, a client without one, or a part of another node. One with many pieces delays those of
another by one of its own.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from broker.transport.clock import IClock

#: Less than a slice of sessions: an event passes several turns of the reactor on its way.
FAIR_SLICE_SECONDS: Final = 0.005

T = TypeVar("T")


class FairSlices:
    def __init__(self, clock: IClock) -> None:
        self._clock = clock
        self._waiting: OrderedDict[str, deque[Callable[[], None]]] = OrderedDict()
        """By holder; the next one is first."""
        self._is_spent = False
        """True if this turn of the reactor has had its slice."""

    def run(self, holder: str, work: Callable[[], T]) -> Deferred[T]:
        """Run a piece of work, at once if this turn has had no slice.

        The result fires within the slice.
        """
        done: Deferred[T] = Deferred()

        def run_piece() -> None:
            try:
                result = work()
            except Exception:
                done.errback(Failure())
            else:
                done.callback(result)

        self._waiting.setdefault(holder, deque()).append(run_piece)
        if not self._is_spent:
            self._run_slice()
        return done

    def _run_slice(self) -> None:
        self._is_spent = True
        started = self._clock.seconds()
        while self._waiting and self._clock.seconds() - started < FAIR_SLICE_SECONDS:
            holder, pieces = self._waiting.popitem(last=False)
            piece = pieces.popleft()
            if pieces:
                self._waiting[holder] = pieces
            piece()
        excess = self._clock.seconds() - started - FAIR_SLICE_SECONDS
        # An event passes several turns of the reactor, and would wait for a long piece in each.
        self._clock.callLater(excess if excess > FAIR_SLICE_SECONDS else 0, self._begin_turn)

    def _begin_turn(self) -> None:
        if self._waiting:
            self._run_slice()
        else:
            self._is_spent = False
