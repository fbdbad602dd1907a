"""Types whose DTD is not to be had now: looked for again, for at most `patience` seconds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeAlias

import attrs
from twisted.python.failure import Failure

from broker.dtd.cache import DtdCache
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.reference import DtdReference
from broker.transport.clock import IClock

#: Types that are looked for; where there are more, the one that was needed first is given up.
MOST_TYPES: Final = 1000
#: Seconds until a look-up is repeated, doubled up to the longest.
PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0

#: Called with whether the DTD is here; if not, nothing waits for it any longer.
Settled: TypeAlias = Callable[[bool], object]


@attrs.define(eq=False)
class _Awaited:
    hint: FetchHint
    since: float
    waiting: list[Settled] = attrs.field(factory=list)
    attempts: int = 0
    hopeless: bool = False


class AwaitedTypes:
    """Look-ups that are repeated until they succeed."""

    def __init__(self, dtds: DtdCache, clock: IClock, patience: float) -> None:
        self._dtds = dtds
        self._clock = clock
        self._patience = patience
        self._awaited: OrderedDict[DtdReference, _Awaited] = OrderedDict()
        self._stopped = False
        self.given_up = 0
        """Types for which patience was over."""

    def __len__(self) -> int:
        return len(self._awaited)

    def __contains__(self, reference: object) -> bool:
        return reference in self._awaited

    def stop(self) -> None:
        """Look for nothing more."""
        self._stopped = True
        self._awaited.clear()

    def expect(self, reference: DtdReference, hint: FetchHint) -> None:
        """Look for a DTD until it is here."""
        known = self._awaited.get(reference)
        if known is not None:
            if hint.link is not None:
                known.hint = hint
            return
        if self._stopped or self._dtds.get(reference) is not None:
            return
        if len(self._awaited) >= MOST_TYPES:
            _, oldest = self._awaited.popitem(last=False)
            _settle(oldest, False)
        awaited = self._awaited[reference] = _Awaited(hint, self._clock.seconds())
        self._clock.callLater(self._patience, self._give_up, reference, awaited)
        self._look_up(reference, awaited)

    def when_settled(self, reference: DtdReference, hint: FetchHint, settled: Settled) -> None:
        """Call `settled`, maybe at once, when the DTD is here or patience is over."""
        self.expect(reference, hint)
        awaited = self._awaited.get(reference)
        if awaited is None:
            settled(self._dtds.get(reference) is not None)
        elif awaited.hopeless:
            settled(False)
        else:
            awaited.waiting.append(settled)

    # ------------------------------------------------------------------ inside

    def _look_up(self, reference: DtdReference, awaited: _Awaited) -> None:
        if self._awaited.get(reference) is not awaited:
            return
        self._dtds.clear_failure(reference)
        awaited.attempts += 1
        self._dtds.lookup(reference, awaited.hint).addCallbacks(
            lambda _: self._found(reference, awaited),
            lambda failure: self._not_found(reference, awaited, failure),
        )

    def _found(self, reference: DtdReference, awaited: _Awaited) -> None:
        if self._awaited.get(reference) is awaited:
            del self._awaited[reference]
        _settle(awaited, True)

    def _not_found(self, reference: DtdReference, awaited: _Awaited, _: Failure) -> None:
        pause = min(PAUSE * 2 ** min(awaited.attempts - 1, 10), LONGEST_PAUSE)
        self._clock.callLater(pause, self._look_up, reference, awaited)

    def _give_up(self, reference: DtdReference, awaited: _Awaited) -> None:
        if self._awaited.get(reference) is awaited:
            self.given_up += 1
            awaited.hopeless = True
            _settle(awaited, False)


def _settle(awaited: _Awaited, found: bool) -> None:
    waiting, awaited.waiting = awaited.waiting, []
    for settled in waiting:
        settled(found)
