"""Look-ups of the DTDs that a source's events need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from twisted.internet.defer import DeferredList
from twisted.python.failure import Failure

from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtdCache
from broker.dtd.reference import DtdReference
from broker.errors import BrokerError, OurError, UnknownType
from broker.ingest.event_source import EventSource
from broker.ingest.pending_dtds import PendingDtds
from broker.matching.contract import TypeMissing, Verdict
from broker.transport.clock import IDelayed

#: Seconds for which a source waits; the look-up continues in the background.
LOOKUP_WAIT: Final = 1.0
#: Types of one source that are looked up at a time; the next ones follow when these have ended.
MAX_TYPES_AT_A_TIME: Final = 16


class TypeLookups:
    """Looks up DTDs while their source is paused."""

    def __init__(self, dtds: IDtdCache, pending_dtds: PendingDtds | None = None) -> None:
        """With `pending_dtds`, a source waits for `LOOKUP_WAIT` at most and a failed look-up is
        repeated in the background. Without, a source waits for the end of each look-up."""
        self._dtds = dtds
        self._pending_dtds = pending_dtds

    def start(self, source: EventSource, verdicts: Iterable[Verdict]) -> bool:
        """Look up the types that these verdicts lack, except those in `source.missing_types`.

        Returns whether there were any; the first `MAX_TYPES_AT_A_TIME` are looked up. Then the
        source is paused meanwhile, and `source.missing_types` gets those that failed.
        """
        hints: dict[DtdReference, FetchHint] = {}
        for verdict in verdicts:
            if isinstance(verdict, TypeMissing) and verdict.reference not in source.missing_types:
                hints[verdict.reference] = source.fetch_hint(verdict.system_id)
                if len(hints) >= MAX_TYPES_AT_A_TIME:
                    break
        if not hints:
            return False
        source.pause()
        has_ended = False
        timer: IDelayed | None = None

        def record(failure: Failure, reference: DtdReference) -> None:
            error = failure.value
            if not isinstance(error, BrokerError):
                error = UnknownType(f"{reference.type} {reference.version}: {error}")
            source.missing_types[reference] = error

        def end(_: object = None) -> None:
            nonlocal has_ended
            if has_ended:
                return
            has_ended = True
            if timer is not None and timer.active():
                timer.cancel()
            if self._pending_dtds is not None:
                self._continue_in_background(source, hints, self._pending_dtds)
            source.resume()

        if self._pending_dtds is not None:
            if all(reference in self._pending_dtds for reference in hints):
                # Earlier events of these types have waited already.
                end()
                return True
            timer = self._pending_dtds.clock.callLater(LOOKUP_WAIT, end)
        DeferredList(
            [
                self._dtds.lookup(reference, hint).addErrback(record, reference)
                for reference, hint in hints.items()
            ]
        ).addCallback(end)
        return True

    def _continue_in_background(
        self,
        source: EventSource,
        hints: Mapping[DtdReference, FetchHint],
        pending_dtds: PendingDtds,
    ) -> None:
        for reference, hint in hints.items():
            if self._dtds.get(reference) is None:
                timed_out = UnknownType(f"the look-up of the DTD for {reference} has not ended")
                error = source.missing_types.setdefault(reference, timed_out)
                if not isinstance(error, OurError):
                    pending_dtds.request(reference, hint)
