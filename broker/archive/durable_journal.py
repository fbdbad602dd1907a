"""The journal of durable subscriptions, for nodes that take clients over.

Of several writers the highest rank wins: the time of storage. A removal has the rank of what it
removes, so a node that drops a moved subscription does not remove it at the new node.

The body of a page is `{"changes": [[client, name, base64 of the stored bytes or null, rank]...]}`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from broker.archive.journal import MALFORMED, Journal, WriterPages
from broker.archive.journal_writer import JournalWriter
from broker.archive.layout import DURABLES
from broker.archive.object_store import ObjectStore
from broker.errors import ArchiveCorrupt

DurableKey: TypeAlias = tuple[str, str]
#: (writer, stored bytes, ms since 1970)
StoredDurable: TypeAlias = tuple[str, bytes, int]
#: Client, name and stored bytes; None removes.
DurableChange: TypeAlias = tuple[str, str, bytes | None]
#: Entries of one writer: stored bytes or None, and the rank.
RankedDurables: TypeAlias = dict[DurableKey, tuple[bytes | None, int]]


class DurableJournal:
    def __init__(self, objects: ObjectStore) -> None:
        self._journal = Journal(objects, DURABLES, _parse_body)

    def read_newest(self) -> Mapping[DurableKey, StoredDurable]:
        """Raises `ArchiveUnavailable`."""
        newest: dict[DurableKey, tuple[int, str, bytes | None]] = {}
        for writer, entries in self.read_by_writer().items():
            for key, (stored, rank) in entries.items():
                known = newest.get(key)
                if known is None or (rank, writer) > known[:2]:
                    newest[key] = (rank, writer, stored)
        return {
            key: (writer, stored, rank)
            for key, (rank, writer, stored) in newest.items()
            if stored is not None
        }

    def read_by_writer(self) -> dict[str, RankedDurables]:
        return {writer: _merge_pages(pages) for writer, pages in self._journal.read().items()}

    def is_damaged(self, writer: str) -> bool:
        self._journal.read()
        return self._journal.is_damaged(writer)

    def read_problems(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for pages in self._journal.read().values():
            found |= pages.problems
        return found


class DurableJournalWriter:
    def __init__(self, objects: ObjectStore, writer: str, wall_clock: Callable[[], int]) -> None:
        self._reader = DurableJournal(objects)
        self._journal = JournalWriter(objects, DURABLES, writer)
        self._writer = writer
        self._wall_clock = wall_clock
        self._written: RankedDurables | None = None

    def put_changes(self, changes: Sequence[DurableChange]) -> None:
        """The changes may be stored even if it raises `ArchiveUnavailable`."""
        if self._written is None:
            self._written = self._reader.read_by_writer().get(self._writer, {})
        entries, now = self._written, self._wall_clock()
        ranked: RankedDurables = {}
        for client, name, stored in changes:
            known = ranked.get((client, name)) or entries.get((client, name))
            ranked[client, name] = (stored, now if stored is not None or not known else known[1])
        self._written = None
        self._journal.put_page(
            _page_body(ranked),
            lambda: _page_body({**entries, **ranked}),
            repeat=self._reader.is_damaged(self._writer),
        )
        self._written = {**entries, **ranked}


def _page_body(entries: RankedDurables) -> dict[str, Any]:
    return {
        "changes": [
            [client, name, None if stored is None else b64encode(stored).decode(), rank]
            for (client, name), (stored, rank) in entries.items()
        ]
    }


def _merge_pages(pages: WriterPages) -> RankedDurables:
    entries: RankedDurables = {}
    for page in pages.pages:
        entries.update(page.body)
    return entries


def _parse_body(body: dict[str, Any]) -> RankedDurables:
    try:
        return {
            (str(client), str(name)): (None if stored is None else b64decode(stored), int(rank))
            for client, name, stored, rank in body["changes"]
        }
    except MALFORMED as error:
        raise ArchiveCorrupt(f"is not a page of durable subscriptions: {error!r}") from None
