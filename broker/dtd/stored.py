"""The DTD store as the cache uses it: texts are read at once, and written on the log's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet.defer import Deferred

from broker.dtd.interfaces import IDtd
from broker.dtd.reference import DtdReference
from broker.dtd.store import DtdStore, StoredDtd
from broker.errors import Overloaded, TooManyTypes

#: Failed writes that are repeated; of further ones the text is in memory only.
MAX_UNSAVED = 256


class StoredDtds:
    """Reads texts at once; writes them on the log's thread, before the events that need them."""

    def __init__(
        self, store: DtdStore, write: Callable[..., Deferred[Any]], wall_clock: Callable[[], int]
    ) -> None:
        """`write` runs calls on one thread in order, commits of the log among them."""
        self.store = store
        self._write = write
        self._wall_clock = wall_clock
        self._unsaved: dict[DtdReference, tuple[StoredDtd, bytes]] = {}

    def read(self, reference: DtdReference) -> bytes | None:
        """The text on disk. Reads a small local file, so it does not wait."""
        return self.store.read(reference)

    def known_hash(self, reference: DtdReference) -> str | None:
        """The content hash of the stored text."""
        entry = self.store.get(reference)
        return None if entry is None else entry.content_hash

    def references(self) -> Iterable[DtdReference]:
        """Everything stored."""
        return (entry.reference for entry in self.store)

    def keep(self, dtd: IDtd, owner: str) -> None:
        """Store a DTD; raises `TooManyTypes` if its owner has no room left."""
        try:
            entry = self.store.admit(dtd.reference, dtd.text, owner, self._wall_clock())
        except Overloaded as error:
            raise TooManyTypes(error.text) from None
        if entry is not None:
            self._save(entry, dtd.text)

    def save_again(self) -> None:
        """Repeat writes that failed."""
        unsaved, self._unsaved = self._unsaved, {}
        for entry, text in unsaved.values():
            if self.store.get(entry.reference) is entry:
                self._save(entry, text)

    def note_used(self, references: Iterable[DtdReference]) -> None:
        """Events of these types have come."""
        now = self._wall_clock()
        for reference in references:
            self.store.note_use(reference, now)

    def _save(self, entry: StoredDtd, text: bytes) -> None:
        def saved(done: bool) -> None:
            if not done and len(self._unsaved) < MAX_UNSAVED:
                self._unsaved[entry.reference] = entry, text

        self._write(self.store.save, entry, text).addCallback(saved)
