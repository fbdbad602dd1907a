"""Flipped bits in the log of a node, stopped or running."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lmdb

from broker.log.damage import Damage, DamageFound
from broker.log.log_file import LogFile
from broker.log.logged_event import LoggedEvent
from broker.log.tables import MAX_TABLES

#: None deletes the value.
Change = Callable[[bytes], bytes | None]


def flipped(value: bytes, bit: int) -> bytes:
    damaged = bytearray(value)
    damaged[bit // 8] ^= 1 << (bit % 8)
    return bytes(damaged)


def damage_folder(folder: Path, table: str, change: Change, nth: int = 0) -> bytes:
    """Change the nth value of a table of a closed log; return its key."""
    with lmdb.open(str(folder), max_dbs=MAX_TABLES) as env:
        return _damage(env, table, change, nth)


def damage_log(log: LogFile, table: str, change: Change, nth: int = 0) -> bytes:
    """As `damage_folder`, in an open log."""
    return _damage(log._env, table, change, nth)


def _damage(env: lmdb.Environment, table: str, change: Change, nth: int) -> bytes:
    handle = env.open_db(table.encode())
    with env.begin(write=True) as txn, txn.cursor(db=handle) as cursor:
        cursor.first()
        for _ in range(nth):
            assert cursor.next()
        key, value = cursor.key(), cursor.value()
        changed = change(value)
        if changed is None:
            cursor.delete()
        else:
            txn.put(key, changed, db=handle)
    return bytes(key)


def read_past_damage(log: LogFile) -> tuple[list[LoggedEvent], list[Damage]]:
    events: list[LoggedEvent] = []
    damages: list[Damage] = []
    at = log.bounds.first
    while at <= log.bounds.last:
        try:
            page = log.read(at, 1000, 1 << 30)
        except DamageFound as found:
            damages.append(found.damage)
            at = found.damage.last + 1
        else:
            events += page
            assert page, "neither events nor damage"
            at = page[-1].serial + 1
    return events, damages
