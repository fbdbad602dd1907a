"""Durable subscriptions that are kept in the archive, for nodes whose client comes from another.

A journal like that of the manifests; a page's body is
`{"changes": [[client, name, base64 of what is stored or null, rank]...]}`. A writer's newest change
of a subscription is what it says of it. Of several writers the one of the highest rank is right.
The rank of what is stored is the time; that of a removal is the rank of what it removes: so a node
that lets go what moved to another one takes nothing away there.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from broker.archive.journal import Journal, Pages
from broker.archive.layout import DURABLES
from broker.archive.objects import Objects
from broker.archive.paging import JournalWriter
from broker.errors import ArchiveCorrupt

#: Client and name of a subscription.
Key: TypeAlias = tuple[str, str]
#: (writer, stored bytes, when they were put in ms since 1970)
StoredDurable: TypeAlias = tuple[str, bytes, int]
#: Client, name, and the stored bytes; None to remove it.
Change: TypeAlias = tuple[str, str, bytes | None]
#: What one writer says: stored bytes or None, and the rank.
Said: TypeAlias = dict[Key, tuple[bytes | None, int]]


class Durables:
    """What all writers say of durable subscriptions."""

    def __init__(self, objects: Objects) -> None:
        self._journal = Journal(objects, DURABLES, _changes)

    def all(self) -> Mapping[Key, StoredDurable]:
        """By client and name what is stored. `ArchiveUnavailable`."""
        newest: dict[Key, tuple[int, str, bytes | None]] = {}
        for writer, said in self.by_writer().items():
            for key, (stored, rank) in said.items():
                known = newest.get(key)
                if known is None or (rank, writer) > known[:2]:
                    newest[key] = (rank, writer, stored)
        return {
            key: (writer, stored, rank)
            for key, (rank, writer, stored) in newest.items()
            if stored is not None
        }

    def by_writer(self) -> dict[str, Said]:
        """What each writer says."""
        return {writer: _said(pages) for writer, pages in self._journal.read().items()}

    def is_damaged(self, writer: str) -> bool:
        """Whether a page of a writer can not be read now."""
        self._journal.read()
        return self._journal.damaged(writer)

    def problems(self) -> dict[str, str]:
        """Pages that can not be read, by path."""
        found: dict[str, str] = {}
        for pages in self._journal.read().values():
            found |= pages.problems
        return found


class DurablesWriter:
    """The durable subscriptions of one writer."""

    def __init__(self, objects: Objects, writer: str, wall_clock: Callable[[], int]) -> None:
        self._durables = Durables(objects)
        self._journal = JournalWriter(objects, DURABLES, writer)
        self._writer = writer
        self._wall_clock = wall_clock
        self._said: Said | None = None

    def put(self, changes: Sequence[Change]) -> None:
        """Say these. `ArchiveUnavailable`: they may have been said all the same."""
        if self._said is None:
            self._said = self._durables.by_writer().get(self._writer, {})
        said, now = self._said, self._wall_clock()
        ranked: Said = {}
        for client, name, stored in changes:
            known = ranked.get((client, name)) or said.get((client, name))
            ranked[client, name] = (stored, now if stored is not None or not known else known[1])
        self._said = None
        self._journal.put(
            _body(ranked),
            lambda: _body({**said, **ranked}),
            repeat=self._durables.is_damaged(self._writer),
        )
        self._said = {**said, **ranked}


def _body(said: Said) -> dict[str, Any]:
    return {
        "changes": [
            [client, name, None if stored is None else b64encode(stored).decode(), rank]
            for (client, name), (stored, rank) in said.items()
        ]
    }


def _said(pages: Pages) -> Said:
    said: Said = {}
    for page in pages.pages:
        said.update(page.body)
    return said


def _changes(body: dict[str, Any]) -> Said:
    try:
        return {
            (str(client), str(name)): (None if stored is None else b64decode(stored), int(rank))
            for client, name, stored, rank in body["changes"]
        }
    except (KeyError, TypeError, ValueError) as error:
        raise ArchiveCorrupt(f"is no page of durable subscriptions: {error!r}") from None
