"""DTD store for the cache: reads at once, writes on the log's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs
from twisted.internet.defer import Deferred

from broker.dtd.interfaces import IDtd
from broker.dtd.reference import DtdReference
from broker.dtd.store import DtdStore, StoredDtd
from broker.errors import Overloaded, TooManyTypes
from broker.transport.clock import IClock

#: Texts not on disk yet; beyond that new ones are rejected.
MAX_UNSAVED = 256
RETRY_SECONDS = 2.0


@attrs.define(eq=False)
class _Unsaved:
    entry: StoredDtd
    text: bytes
    is_writing: bool = False
    waiters: list[Deferred[None]] = attrs.field(factory=list)


class AsyncDtdStore:
    """Reads texts at once; writes them on the log's thread, before events that need them."""

    def __init__(
        self,
        store: DtdStore,
        write: Callable[..., Deferred[Any]],
        wall_clock: Callable[[], int],
        clock: IClock,
    ) -> None:
        """`write` runs calls on one thread in order, the log's commits among them."""
        self.store = store
        self._write = write
        self._wall_clock = wall_clock
        self._clock = clock
        self._unsaved: dict[DtdReference, _Unsaved] = {}

    def __bool__(self) -> bool:
        return bool(self._unsaved)

    def is_unsaved(self, reference: DtdReference) -> bool:
        """Return True if the text is not on disk yet: its events can not be validated after a
        restart."""
        return reference in self._unsaved

    def when_write_settled(self, reference: DtdReference) -> Deferred[None]:
        """Fire when a running write has succeeded or failed; at once without one."""
        unsaved = self._unsaved.get(reference)
        tried: Deferred[None] = Deferred()
        if unsaved is None or not unsaved.is_writing:
            tried.callback(None)
        else:
            unsaved.waiters.append(tried)
        return tried

    def read(self, reference: DtdReference) -> bytes | None:
        unsaved = self._unsaved.get(reference)
        return self.store.read(reference) if unsaved is None else unsaved.text

    def known_hash(self, reference: DtdReference) -> str | None:
        entry = self.store.get(reference)
        return None if entry is None else entry.content_hash

    def references(self) -> Iterable[DtdReference]:
        return (entry.reference for entry in self.store)

    def save(self, dtd: IDtd, owner: str) -> None:
        """Store a DTD. Raises `TooManyTypes` if its owner's share is full."""
        if len(self._unsaved) >= MAX_UNSAVED:
            raise TooManyTypes(f"{MAX_UNSAVED} DTDs could not be written to the disk yet")
        try:
            entry = self.store.add_entry(dtd.reference, dtd.text, owner, self._wall_clock())
        except Overloaded as error:
            raise TooManyTypes(error.text) from None
        if entry is not None:
            unsaved = self._unsaved[dtd.reference] = _Unsaved(entry, dtd.text)
            self._start_write(unsaved)

    def record_use(self, references: Iterable[DtdReference]) -> None:
        now = self._wall_clock()
        for reference in references:
            self.store.record_use(reference, now)

    def _start_write(self, unsaved: _Unsaved) -> None:
        reference = unsaved.entry.reference
        if self._unsaved.get(reference) is not unsaved:
            return
        if self.store.get(reference) is not unsaved.entry:
            del self._unsaved[reference]
            return
        unsaved.is_writing = True

        def tried(done: object) -> None:
            unsaved.is_writing = False
            if done is not True:
                self._clock.callLater(RETRY_SECONDS, self._start_write, unsaved)
            elif self._unsaved.get(reference) is unsaved:
                del self._unsaved[reference]
            waiting, unsaved.waiters = unsaved.waiters, []
            for each in waiting:
                each.callback(None)

        self._write(self.store.save, unsaved.entry, unsaved.text).addBoth(tried)
