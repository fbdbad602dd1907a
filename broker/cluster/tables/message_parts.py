"""Split large updates and digests into consecutive messages, and reassemble them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from broker.cluster.messages import CHANGED, Digest, GroupVersion, TableChange, Update
from broker.cluster.tables.group import packed_size
from broker.cluster.tables.table import TableLimits
from broker.errors import ProtocolError

#: Bytes: events share the link.
PART_BYTES = 64 * 1024
#: So a part stays below `MAX_CONTROL`.
PART_STANDS = 1000


def split_update(update: Update) -> list[Update]:
    groups = list(_split_tables(update.tables)) or [()]
    last = len(groups) - 1
    if not last and not update.more:
        return [update]
    return [
        replace(update, tables=tables, more=place < last) for place, tables in enumerate(groups)
    ]


def _split_tables(changes: tuple[TableChange, ...]) -> Iterator[tuple[TableChange, ...]]:
    part: list[TableChange] = []
    room = PART_BYTES
    for kind, subject, how, entries in changes:
        open_from = 0
        room -= len(kind) + len(subject)
        for place, (key, value) in enumerate(entries):
            room -= packed_size(key, value)
            if room < 0 and (part or place > open_from):
                part.append((kind, subject, how, entries[open_from:place]))
                yield tuple(part)
                part, how, open_from = [], CHANGED, place
                room = PART_BYTES - packed_size(key, value)
        part.append((kind, subject, how, entries[open_from:]))
    if part:
        yield tuple(part)


def split_digest(versions: tuple[GroupVersion, ...], *, all: bool) -> list[Digest]:
    starts = range(0, len(versions), PART_STANDS) or (0,)
    return [
        Digest(versions[i : i + PART_STANDS], all, i + PART_STANDS < len(versions)) for i in starts
    ]


class Reassembly:
    """Parts of one neighbour's message, up to the table limits."""

    def __init__(self, limits: TableLimits) -> None:
        self._limits = limits
        self._update: Update | None = None
        self._tables: list[TableChange] = []
        self._room = 0
        self._digest: list[GroupVersion] | None = None

    def add_update_part(self, part: Update) -> Update | None:
        if self._digest is not None:
            raise ProtocolError("an update before the end of a digest")
        if self._update is None:
            self._update, self._tables = part, []
            self._room = self._limits.bytes * 2
        elif replace(part, tables=(), more=True, age=0) != replace(
            self._update, tables=(), more=True, age=0
        ):
            raise ProtocolError("an update before the end of another")
        self._room -= sum(
            packed_size(key, value) for *_, entries in part.tables for key, value in entries
        )
        self._tables += part.tables
        if self._room < 0 or len(self._tables) > self._limits.entries:
            raise ProtocolError("an update exceeds the limits of a table")
        if part.more:
            return None
        # Most updates have one part, which was checked already.
        alone = self._update is part
        whole = part if alone else replace(part, tables=tuple(self._tables))
        self._update, self._tables = None, []
        return whole

    def add_digest_part(self, part: Digest) -> Digest | None:
        self.check_complete("a digest")
        versions = self._digest = (self._digest or []) + list(part.versions)
        if len(versions) > self._limits.groups:
            raise ProtocolError(f"a digest of {len(versions)} groups, over {self._limits.groups}")
        if part.more:
            return None
        self._digest = None
        return replace(part, versions=tuple(versions))

    def check_complete(self, description: str) -> None:
        if self._update is not None:
            raise ProtocolError(f"{description} before the end of an update")
