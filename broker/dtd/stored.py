"""The DTD store as the cache uses it: texts are read at once, and written on the log's thread."""

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

#: Texts that are not on disk yet; no further one is taken.
MAX_UNSAVED = 256
#: Seconds until a failed write is repeated.
SAVE_AGAIN = 2.0


@attrs.define(eq=False)
class _Unsaved:
    entry: StoredDtd
    text: bytes
    under_way: bool = False
    waiting: list[Deferred[None]] = attrs.field(factory=list)


class StoredDtds:
    """Reads texts at once; writes them on the log's thread, before the events that need them."""

    def __init__(
        self,
        store: DtdStore,
        write: Callable[..., Deferred[Any]],
        wall_clock: Callable[[], int],
        clock: IClock,
    ) -> None:
        """`write` runs calls on one thread in order, commits of the log among them."""
        self.store = store
        self._write = write
        self._wall_clock = wall_clock
        self._clock = clock
        self._unsaved: dict[DtdReference, _Unsaved] = {}

    def __bool__(self) -> bool:
        """Whether a text is not on disk yet."""
        return bool(self._unsaved)

    def is_unsaved(self, reference: DtdReference) -> bool:
        """Whether a text is not on disk yet. Its events can not be judged after a restart."""
        return reference in self._unsaved

    def when_tried(self, reference: DtdReference) -> Deferred[None]:
        """Fires when the write of a text under way has succeeded or failed, at once if none is."""
        unsaved = self._unsaved.get(reference)
        tried: Deferred[None] = Deferred()
        if unsaved is None or not unsaved.under_way:
            tried.callback(None)
        else:
            unsaved.waiting.append(tried)
        return tried

    def read(self, reference: DtdReference) -> bytes | None:
        """The stored text. Reads a small local file, so it does not wait."""
        unsaved = self._unsaved.get(reference)
        return self.store.read(reference) if unsaved is None else unsaved.text

    def known_hash(self, reference: DtdReference) -> str | None:
        """The content hash of the stored text."""
        entry = self.store.get(reference)
        return None if entry is None else entry.content_hash

    def references(self) -> Iterable[DtdReference]:
        """Everything stored."""
        return (entry.reference for entry in self.store)

    def keep(self, dtd: IDtd, owner: str) -> None:
        """Store a DTD; raises `TooManyTypes` if its owner has no room left."""
        if len(self._unsaved) >= MAX_UNSAVED:
            raise TooManyTypes(f"{MAX_UNSAVED} DTDs could not be written to the disk yet")
        try:
            entry = self.store.admit(dtd.reference, dtd.text, owner, self._wall_clock())
        except Overloaded as error:
            raise TooManyTypes(error.text) from None
        if entry is not None:
            unsaved = self._unsaved[dtd.reference] = _Unsaved(entry, dtd.text)
            self._save(unsaved)

    def note_used(self, references: Iterable[DtdReference]) -> None:
        """Events of these types have come."""
        now = self._wall_clock()
        for reference in references:
            self.store.note_use(reference, now)

    def _save(self, unsaved: _Unsaved) -> None:
        reference = unsaved.entry.reference
        if self._unsaved.get(reference) is not unsaved:
            return
        if self.store.get(reference) is not unsaved.entry:
            del self._unsaved[reference]
            return
        unsaved.under_way = True

        def tried(done: object) -> None:
            unsaved.under_way = False
            if done is not True:
                self._clock.callLater(SAVE_AGAIN, self._save, unsaved)
            elif self._unsaved.get(reference) is unsaved:
                del self._unsaved[reference]
            waiting, unsaved.waiting = unsaved.waiting, []
            for each in waiting:
                each.callback(None)

        self._write(self.store.save, unsaved.entry, unsaved.text).addBoth(tried)
