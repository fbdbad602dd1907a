"""A log's file written anew from what can be read of a damaged one.

Damaged chunks are copied as they are: the node that opens the log asks others for their events. The
damaged file stays beside the new one.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import lmdb

from broker.store.log_verification import Verification
from broker.store.page_file import FILE
from broker.store.tables import MAX_TABLES

#: Puts in one transaction.
_BATCH = 1_000
_NEW, _OLD = "salvaged", FILE + ".damaged"


def salvage(folder: Path) -> Path:
    """Replace the file of a claimed log, which is not open; where the damaged one is kept."""
    new = folder / _NEW
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    verification = Verification(folder)
    try:
        meta = verification.best_meta()
        roots = verification.file.tables(meta)
        with lmdb.open(
            str(new), map_size=2 * verification.file.size + (64 << 20), max_dbs=MAX_TABLES
        ) as env:
            for name, root in roots.items():
                _copy(env, name, dict(verification.file.items(name, root)))
            env.sync(True)
    finally:
        verification.close()
    old = _free_name(folder)
    # A kill in between leaves the new file in its folder, from which a second run goes on.
    os.replace(folder / FILE, old)
    os.replace(new / FILE, folder / FILE)
    (folder / "lock.mdb").unlink(missing_ok=True)
    shutil.rmtree(new)
    return old


def _copy(env: lmdb.Environment, name: bytes, items: dict[bytes, bytes]) -> None:
    table = env.open_db(name)
    rows = [(key, value) for key, value in sorted(items.items()) if 0 < len(key) <= 511]
    for start in range(0, len(rows), _BATCH):
        with env.begin(write=True, db=table) as txn:
            for key, value in rows[start : start + _BATCH]:
                txn.put(key, value)


def _free_name(folder: Path) -> Path:
    number = 0
    while (found := folder / f"{_OLD}{f'-{number}' if number else ''}").exists():
        number += 1
    return found
