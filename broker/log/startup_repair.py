"""Checks and repairs at the start: formats, the upgrade from format 3, and damaged values.

The upgrade is one transaction. It adds checksums and copies to small values. Other data gets
checksums when it is written next.
"""

from __future__ import annotations

from pathlib import Path

import attrs
import lmdb

from broker.errors import LogCorrupt
from broker.log.checksum import Buffer, ValueDamaged
from broker.log.chunk_repair import append_placeholders, write_placeholder
from broker.log.tables import FORMAT, Tables, format_name, format_number

#: Added to a lost epoch: failed commits may have used epochs without an event.
EPOCHS_AHEAD = 1_000
#: Beyond this the covered mark is considered wrong.
MAX_LOST_TAIL = 1_000_000
#: Most damaged bits in the name of a format.
MAX_DAMAGED_BITS = 2


class LogTooNew(LogCorrupt):
    """The event log was written by a newer version of this program."""

    code = "log-too-new"


@attrs.frozen
class StartupRepairs:
    healed: int = 0
    """Values restored from their copies, and places written again."""
    lost: tuple[str, ...] = ()
    """Values without an intact copy, as table and key."""

    def __bool__(self) -> bool:
        return bool(self.healed or self.lost)


def check_format(txn: lmdb.Transaction, tables: Tables, folder: Path) -> bool:
    """Store the format of a new log (True), or upgrade format 3. Raises `LogCorrupt`,
    `LogTooNew`."""
    stored = txn.get(b"format", db=tables.meta_table)
    # The second entry distinguishes a damaged number from another one.
    made = tables.meta.get_or_none(txn, b"made")
    used = any(txn.stat(each)["entries"] for each in (tables.meta_table, tables.events))
    if stored is None and made is None and not used:
        txn.put(b"format", format_name(FORMAT), db=tables.meta_table)
        tables.meta.put(txn, b"made", b"%d" % FORMAT)
        return True
    number = None if stored is None else format_number(bytes(stored))
    is_known = number in (3, FORMAT)
    if not is_known and made == b"%d" % FORMAT:
        if number is None or _is_nearly(stored or b"", format_name(FORMAT)):
            number = FORMAT
            txn.put(b"format", format_name(FORMAT), db=tables.meta_table)
    if number is None:
        what = b"" if stored is None else bytes(stored)
        raise LogCorrupt(
            f"{folder} holds no event log that this version knows: its format is {what[:40]!r}"
        )
    if number > FORMAT:
        raise LogTooNew(
            f"{folder} holds an event log of format {format_name(number).decode()}, written by a "
            f"newer version of xmlbroker; this version reads up to {format_name(FORMAT).decode()}: "
            "install the newer version again"
        )
    if number < 3:
        raise LogCorrupt(f"{folder} holds an event log of format {number}, which is too old")
    if number == 3 and made != b"%d" % FORMAT:
        _upgrade(txn, tables)
    return False


def _is_nearly(stored: Buffer, name: bytes) -> bool:
    differ = [(one ^ other).bit_count() for one, other in zip(bytes(stored), name, strict=False)]
    return len(stored) == len(name) and sum(differ) <= MAX_DAMAGED_BITS


def _upgrade(txn: lmdb.Transaction, tables: Tables) -> None:
    tables.origins.upgrade(txn)
    for prefix in list(tables.replicas.prefixes(txn)):
        stored = txn.get(prefix, db=tables.replicas.table)
        if stored is not None:
            tables.replicas.spans_table.put(txn, prefix, bytes(stored))
    for values in (tables.durables, tables.clients):
        values.upgrade(txn)
    for key in (b"origin", b"epoch", b"clean", b"last"):
        stored = txn.get(key, db=tables.meta_table)
        if stored is not None:
            tables.meta.put(txn, key, bytes(stored))
    txn.put(b"format", format_name(FORMAT), db=tables.meta_table)
    tables.meta.put(txn, b"made", b"%d" % FORMAT)


def read_epoch(txn: lmdb.Transaction, tables: Tables, origin: str) -> int:
    """Return the newest epoch; if it is lost, one after all possible ones."""
    try:
        return int(tables.meta.get(txn, b"epoch") or b"0")
    except (ValueDamaged, ValueError):
        newest = tables.origins.covered(txn).get(origin, (0, 0))[0]
        with tables.chunks.cursor(txn) as cursor:
            chunk = tables.chunks.last_chunk(txn, cursor)
        if chunk is not None and chunk.origin == origin:
            newest = max(newest, chunk.mark_at(chunk.last)[0])
        return newest + EPOCHS_AHEAD


def read_origin(txn: lmdb.Transaction, tables: Tables, folder: Path) -> str:
    """Raises `LogCorrupt`."""
    try:
        return (tables.meta.get(txn, b"origin") or b"").decode()
    except (ValueDamaged, ValueError):
        raise LogCorrupt(
            f"the name of the event log {folder} is damaged, and so is its copy: restore the "
            "folder, or move it away; the node then begins a new log, and its replicas and the "
            "archive serve the old one's events"
        ) from None


def repair_tables(txn: lmdb.Transaction, tables: Tables) -> StartupRepairs:
    healed, missing = tables.origins.repair(txn)
    for places in missing:
        write_placeholder(txn, tables, places)
    lost: list[str] = []
    for name, values in tables.checked_tables.items():
        prefixes: list[bytes] = [b""]
        if name == "origins":
            prefixes = [b"c", b"s"]
        elif name == "kept":
            prefixes = list(tables.replicas.prefixes(txn))
        elif name == "meta":
            # The format has no checksum.
            prefixes = [b"origin", b"made"]
        elif name == "marks":
            # There may be many: readers verify them.
            continue
        before = values.damaged["healed"]
        for prefix in prefixes:
            if name == "kept":
                lost += _heal_span(txn, tables, prefix)
            else:
                lost += [f"{name} {key!r}" for key in values.heal(txn, prefix)]
        healed += values.damaged["healed"] - before
    return StartupRepairs(healed, tuple(lost))


def append_lost_tail(txn: lmdb.Transaction, tables: Tables, origin: str) -> int:
    """Append placeholders for lost own events at the end.

    A log has all own events up to its own covered mark, except recorded losses.
    """
    covered = tables.origins.covered(txn).get(origin, (0, 0))
    known = [
        tables.origins.begins_after(txn).get(origin, (0, 0)),
        tables.origins.last_place(txn, origin),
    ]
    known += [(0, loss.next_offset - 1) for loss in tables.histories.read_chain(txn).losses]
    last = max(known, key=lambda mark: mark[1])
    lost = covered[1] - last[1]
    return (
        append_placeholders(txn, tables, origin, last, covered) if 0 < lost <= MAX_LOST_TAIL else 0
    )


def _heal_span(txn: lmdb.Transaction, tables: Tables, prefix: bytes) -> list[str]:
    """Restore a span, or delete the replica: its owner sends it again."""
    values = tables.replicas.spans_table
    try:
        value = values.get(txn, prefix)
    except ValueDamaged:
        value = None
    if value is not None:
        if not values.is_sound(txn, prefix):
            values.put(txn, prefix, value)
        return []
    tables.replicas.delete_prefix(txn, prefix)
    return [f"replica {prefix[:-1]!r}"]
