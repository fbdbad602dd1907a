"""Rebuilding a log's file from the readable parts of a damaged one.

Damaged chunks are copied: the node later asks others for their events. All pages are searched for
chunks that no readable page refers to. The damaged file is kept beside the new one.
"""

from __future__ import annotations

import os
import shutil
import struct
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import lmdb

from broker.errors import LogCorrupt
from broker.log.chunk import decode_key
from broker.log.chunk_table import EVENTS
from broker.log.log_verification import Verification
from broker.log.page_file import FILE, NO_TREE, PageFile
from broker.log.stored_chunk import MAGIC, HeadDamaged, StoredChunk
from broker.log.tables import MAX_TABLES

_BATCH = 1_000
_NEW, _OLD = "salvaged", FILE + ".damaged"
_EVENTS = EVENTS.encode()


def rebuild_file(folder: Path) -> Path:
    """Replace the file of a locked log; return the path of the damaged one. Raises `LogCorrupt` if
    no table can be read."""
    new = folder / _NEW
    shutil.rmtree(new, ignore_errors=True)
    verification = Verification(folder)
    try:
        file = verification.file
        tables, *before = [file.tables(meta) for meta in verification.rank_metas()]
        if not tables:
            raise LogCorrupt(
                f"no table of the event log {folder} can be read: restore the folder, or move it "
                "away; the node then begins a new log, and its replicas and the archive serve the "
                "old one's events"
            )
        new.mkdir()
        size = 2 * file.size + (64 << 20)
        with lmdb.open(str(new), map_size=size, max_dbs=MAX_TABLES) as env:
            for name in {name for each in (tables, *before) for name in each} - {_EVENTS}:
                file.clear_problems()
                _copy(env, name, file.items(name, tables.get(name, NO_TREE)))
                for each in before:
                    if file.problems or name not in tables:
                        # Deleted entries may reappear.
                        items = file.items(name, each.get(name, NO_TREE))
                        _copy(env, name, items, overwrite=False)
            serials = _SerialIndex()
            events = file.items(_EVENTS, tables.get(_EVENTS, NO_TREE))
            _copy(env, _EVENTS, serials.record_items(events))
            _copy(env, _EVENTS, _find_orphaned_chunks(file, serials))
            env.sync(True)
    finally:
        verification.close()
    old = _free_name(folder)
    # A crash leaves the old file in its place, or the new one.
    os.link(folder / FILE, old)
    os.replace(new / FILE, folder / FILE)
    (folder / "lock.mdb").unlink(missing_ok=True)
    shutil.rmtree(new)
    return old


class _SerialIndex:
    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._last: dict[int, int] = {}

    def record_items(self, items: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        for key, value in items:
            chunk = _chunk(key, value)
            if chunk is not None:
                self.add(chunk.first, chunk.last)
            elif len(key) == 8:
                self.add(decode_key(key), decode_key(key))
            yield key, value

    def add(self, first: int, last: int) -> None:
        insort(self._firsts, first)
        self._last[first] = last

    def has_room(self, chunk: StoredChunk) -> bool:
        """Return True if no copied chunk overlaps this one, and one lies before it."""
        follows = bisect_right(self._firsts, chunk.last)
        return follows > 0 and self._last[self._firsts[follows - 1]] < chunk.first


def _find_orphaned_chunks(file: PageFile, serials: _SerialIndex) -> Iterator[tuple[bytes, bytes]]:
    """Yield whole chunks that no table refers to. Older pages contain removed chunks too."""
    found: list[tuple[StoredChunk, bytes]] = []
    for key, value in file.leaves():
        if value.startswith(MAGIC):
            chunk = _chunk(key, value)
            if chunk is not None and serials.has_room(chunk):
                found.append((chunk, value))
    # If serials were given again, the newer places count.
    for chunk, value in sorted(found, key=lambda each: each[0].mark_at(each[0].last), reverse=True):
        if serials.has_room(chunk):
            serials.add(chunk.first, chunk.last)
            yield chunk.key, value


def _chunk(key: bytes, value: bytes) -> StoredChunk | None:
    try:
        return StoredChunk(EVENTS, key, decode_key(key), value)
    except (HeadDamaged, struct.error):
        return None


def _copy(
    env: lmdb.Environment,
    name: bytes,
    items: Iterable[tuple[bytes, bytes]],
    *,
    overwrite: bool = True,
) -> None:
    table = env.open_db(name)
    rows = ((key, value) for key, value in items if 0 < len(key) <= 511)
    while batch := list(islice(rows, _BATCH)):
        with env.begin(write=True, db=table) as txn:
            for key, value in batch:
                txn.put(key, value, overwrite=overwrite)


def _free_name(folder: Path) -> Path:
    number = 0
    while (found := folder / f"{_OLD}{f'-{number}' if number else ''}").exists():
        number += 1
    return found
