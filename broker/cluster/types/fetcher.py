"""DTDs that others announce, fetched before their events come (M13, M14, T25)."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final

import attrs
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from broker.cluster.address import Address, unit_text
from broker.cluster.types.core import Announced
from broker.dtd.cache import DtdCache
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtd
from broker.dtd.owner import of_node, of_unit
from broker.dtd.reference import DtdReference
from broker.errors import TooManyTypes
from broker.transport.clock import IClock, IDelayed

#: Texts that are fetched at the same time, and that wait; a further one is dropped and counted.
MOST_FETCHES: Final = 4
MOST_WAITING: Final = 8192
#: Seconds after a failure, doubled up to the longest; attempts after which a text is given up.
PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
MOST_ATTEMPTS: Final = 30


@attrs.define(eq=False)
class _Wanted:
    reference: DtdReference
    content_hash: str
    hint: FetchHint
    due: float
    attempts: int = 0


class TypeFetcher:
    """Fetches announced texts, a few at a time."""

    def __init__(
        self, dtds: DtdCache, clock: IClock, conflict: Callable[[DtdReference], object]
    ) -> None:
        """`conflict` is called with a reference for which another text counts here."""
        self._dtds = dtds
        self._clock = clock
        self._conflict = conflict
        self._wanted: OrderedDict[tuple[DtdReference, str], _Wanted] = OrderedDict()
        self._under_way: set[tuple[DtdReference, str]] = set()
        self._timer: IDelayed | None = None
        self._lacking: set[tuple[DtdReference, str]] = set()
        """Texts that are fetched by their events alone, if at all."""
        self.counts: Counter[str] = Counter()
        """Texts that were `fetched`, `failed` (attempts), `given-up`, `dropped`, `refused`."""

    def __len__(self) -> int:
        return len(self._wanted)

    def stop(self) -> None:
        """Fetch nothing more."""
        self._wanted.clear()
        self._lacking.clear()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def announced(self, announced: Announced) -> None:
        """Fetch a text unless it is known."""
        reference = announced.announcement.reference
        content_hash = announced.announcement.content_hash
        key = (reference, content_hash)
        if self._is_known(reference, content_hash) or key in self._under_way:
            return
        if key not in self._wanted and len(self._wanted) >= MOST_WAITING:
            self.counts["dropped"] += 1
            self._lack(key)
            return
        unit, author = announced.unit, announced.author
        if announced.of_unit:
            hint = FetchHint(link=Address(unit, ""), owner=of_unit(unit_text(unit)))
        else:
            hint = FetchHint(link=Address(unit, author), owner=of_node(author))
        hint = attrs.evolve(hint, content_hash=content_hash)
        self._wanted[key] = _Wanted(reference, content_hash, hint, self._clock.seconds())
        self._work_later(0.0)

    def coming(self, reference: DtdReference) -> Deferred[IDtd] | None:
        """The DTD of a text that is wanted, fetched at once; None if it is not."""
        flight = self._dtds.flight(reference)
        if flight is not None:
            return flight
        for wanted in self._wanted.values():
            if wanted.reference == reference:
                return self._dtds.lookup(reference, wanted.hint)
        return None

    def try_now(self) -> None:
        """There may be a way to a source now."""
        for wanted in self._wanted.values():
            wanted.due = 0.0
        if self._wanted:
            self._work_later(0.0)

    def is_complete(self) -> bool:
        """Whether every announced text is here."""
        if self._wanted or self._under_way:
            return False
        self._lacking = {key for key in self._lacking if not self._is_known(*key)}
        return not self._lacking

    # ------------------------------------------------------------------ inside

    def _is_known(self, reference: DtdReference, content_hash: str) -> bool:
        known = self._dtds.known_hash(reference)
        if known is None:
            return False
        if known == content_hash:
            return True
        self._conflict(reference)
        variant = DtdReference(reference.type, reference.version, content_hash)
        return self._dtds.known_hash(variant) is not None

    def _lack(self, key: tuple[DtdReference, str]) -> None:
        if len(self._lacking) < MOST_WAITING:
            self._lacking.add(key)

    def _work_later(self, seconds: float) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = self._clock.callLater(seconds, self._work)

    def _work(self) -> None:
        self._timer = None
        now = self._clock.seconds()
        for key, wanted in list(self._wanted.items()):
            if len(self._under_way) >= MOST_FETCHES:
                return
            if wanted.due <= now:
                del self._wanted[key]
                self._fetch(key, wanted)
        if self._wanted and self._timer is None:
            soonest = min(each.due for each in self._wanted.values())
            self._work_later(max(0.0, soonest - now))

    def _fetch(self, key: tuple[DtdReference, str], wanted: _Wanted) -> None:
        reference = wanted.reference
        if self._is_known(reference, wanted.content_hash):
            return
        if self._dtds.known_hash(reference) is not None:
            reference = DtdReference(reference.type, reference.version, wanted.content_hash)
        self._under_way.add(key)
        wanted.attempts += 1
        self._dtds.retry(reference)
        found = self._dtds.lookup(reference, wanted.hint)
        found.addCallbacks(
            lambda _: self._fetched(key, wanted), lambda failure: self._failed(key, wanted, failure)
        )

    def _fetched(self, key: tuple[DtdReference, str], wanted: _Wanted) -> None:
        self._under_way.discard(key)
        self.counts["fetched"] += 1
        if not self._is_known(wanted.reference, wanted.content_hash):
            # Another text came first under the name.
            self._wanted[key] = wanted
        self._work_later(0.0)

    def _failed(self, key: tuple[DtdReference, str], wanted: _Wanted, failure: Failure) -> None:
        self._under_way.discard(key)
        self.counts["failed"] += 1
        if failure.check(TooManyTypes):
            self.counts["refused"] += 1
            self._lack(key)
        elif wanted.attempts >= MOST_ATTEMPTS:
            self.counts["given-up"] += 1
            self._lack(key)
        else:
            pause = min(PAUSE * 2 ** (wanted.attempts - 1), LONGEST_PAUSE)
            wanted.due = self._clock.seconds() + pause
            self._wanted[key] = wanted
        self._work_later(0.0)
