"""Fetch announced DTDs before their events arrive (M13, M14, T25)."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final

import attrs
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from broker.cluster.address import Address, unit_text
from broker.cluster.types.core import TypeAnnounced
from broker.dtd.cache import DtdCache
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtd
from broker.dtd.owner import of_node, of_unit
from broker.dtd.reference import DtdReference
from broker.errors import TooManyTypes
from broker.transport.backoff import backoff_bound
from broker.transport.clock import IClock, IDelayed

#: Further texts are dropped and counted.
MAX_FETCHES: Final = 4
MAX_PENDING: Final = 8192
#: Seconds after a failure, doubled up to the longest.
BACKOFF: Final = 1.0
MAX_BACKOFF: Final = 60.0
MAX_ATTEMPTS: Final = 30


@attrs.define(eq=False)
class _PendingText:
    reference: DtdReference
    content_hash: str
    hint: FetchHint
    due: float
    attempts: int = 0


class TypeFetcher:
    """Fetches announced DTDs before their events arrive, a few at a time (M13, M14, T25)."""

    def __init__(
        self, dtds: DtdCache, clock: IClock, report_conflict: Callable[[DtdReference], object]
    ) -> None:
        """`report_conflict` is called for a name with another text at this node."""
        self._dtds = dtds
        self._clock = clock
        self._report_conflict = report_conflict
        self._pending: OrderedDict[tuple[DtdReference, str], _PendingText] = OrderedDict()
        self._in_flight: set[tuple[DtdReference, str]] = set()
        self._timer: IDelayed | None = None
        self._missing: set[tuple[DtdReference, str]] = set()
        """They are only fetched for an event."""
        self.counts: Counter[str] = Counter()
        """`fetched`, `failed` (attempts), `given-up`, `dropped`, `refused`."""

    def __len__(self) -> int:
        return len(self._pending)

    def stop(self) -> None:
        self._pending.clear()
        self._missing.clear()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def fetch_announced(self, announced: TypeAnnounced) -> None:
        reference = announced.announcement.reference
        content_hash = announced.announcement.content_hash
        key = (reference, content_hash)
        if self._is_known(reference, content_hash) or key in self._in_flight:
            return
        if key not in self._pending and len(self._pending) >= MAX_PENDING:
            self.counts["dropped"] += 1
            self._add_missing(key)
            return
        unit, author = announced.unit, announced.author
        if announced.is_of_unit:
            hint = FetchHint(link=Address(unit, ""), owner=of_unit(unit_text(unit)))
        else:
            hint = FetchHint(link=Address(unit, author), owner=of_node(author))
        hint = attrs.evolve(hint, content_hash=content_hash)
        self._pending[key] = _PendingText(reference, content_hash, hint, self._clock.seconds())
        self._schedule(0.0)

    def fetch_now(self, reference: DtdReference) -> Deferred[IDtd] | None:
        """None if the DTD is not pending."""
        flight = self._dtds.join_fetch(reference)
        if flight is not None:
            return flight
        for pending in self._pending.values():
            if pending.reference == reference:
                return self._dtds.lookup(reference, pending.hint)
        return None

    def retry_now(self) -> None:
        """Retry all pending texts: a source may be reachable now."""
        for pending in self._pending.values():
            pending.due = 0.0
        if self._pending:
            self._schedule(0.0)

    def is_complete(self) -> bool:
        if self._pending or self._in_flight:
            return False
        self._missing = {key for key in self._missing if not self._is_known(*key)}
        return not self._missing

    def _is_known(self, reference: DtdReference, content_hash: str) -> bool:
        known = self._dtds.known_hash(reference)
        if known is None:
            return False
        if known == content_hash:
            return True
        self._report_conflict(reference)
        variant = DtdReference(reference.type, reference.version, content_hash)
        return self._dtds.known_hash(variant) is not None

    def _add_missing(self, key: tuple[DtdReference, str]) -> None:
        if len(self._missing) < MAX_PENDING:
            self._missing.add(key)

    def _schedule(self, seconds: float) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = self._clock.callLater(seconds, self._fetch_due)

    def _fetch_due(self) -> None:
        self._timer = None
        now = self._clock.seconds()
        for key, pending in list(self._pending.items()):
            if len(self._in_flight) >= MAX_FETCHES:
                return
            if pending.due <= now:
                del self._pending[key]
                self._fetch(key, pending)
        if self._pending and self._timer is None:
            soonest = min(each.due for each in self._pending.values())
            self._schedule(max(0.0, soonest - now))

    def _fetch(self, key: tuple[DtdReference, str], pending: _PendingText) -> None:
        reference = pending.reference
        if self._is_known(reference, pending.content_hash):
            return
        if self._dtds.known_hash(reference) is not None:
            reference = DtdReference(reference.type, reference.version, pending.content_hash)
        self._in_flight.add(key)
        pending.attempts += 1
        self._dtds.clear_failure(reference)
        found = self._dtds.lookup(reference, pending.hint)
        found.addCallbacks(
            lambda _: self._finish_fetch(key, pending),
            lambda failure: self._retry_or_give_up(key, pending, failure),
        )

    def _finish_fetch(self, key: tuple[DtdReference, str], pending: _PendingText) -> None:
        self._in_flight.discard(key)
        self.counts["fetched"] += 1
        if not self._is_known(pending.reference, pending.content_hash):
            # Another text arrived first under the name.
            self._pending[key] = pending
        self._schedule(0.0)

    def _retry_or_give_up(
        self, key: tuple[DtdReference, str], pending: _PendingText, failure: Failure
    ) -> None:
        self._in_flight.discard(key)
        self.counts["failed"] += 1
        if failure.check(TooManyTypes):
            self.counts["refused"] += 1
            self._add_missing(key)
        elif pending.attempts >= MAX_ATTEMPTS:
            self.counts["given-up"] += 1
            self._add_missing(key)
        else:
            pause = backoff_bound(pending.attempts - 1, BACKOFF, MAX_BACKOFF)
            pending.due = self._clock.seconds() + pause
            self._pending[key] = pending
        self._schedule(0.0)
