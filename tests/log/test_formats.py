from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import lmdb
import pytest

from broker.errors import LogCorrupt
from broker.log.commit import Commit, Retention
from broker.log.log_file import LogFile
from broker.log.replica_table import ReplicaSpan
from broker.log.startup_repair import LogTooNew
from broker.log.tables import MAX_TABLES
from tests.capability import VERSION_1, skip
from tests.log.bit_damage import damage_folder, flipped, read_past_damage
from tests.log.old_log import made

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def old_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("code")
    archive = folder / "code.tar"
    packed = subprocess.run(
        ["git", "archive", "-o", archive, VERSION_1, "broker"], cwd=ROOT, capture_output=True
    )
    if packed.returncode:
        skip("previous-version", packed.stderr.decode()[:200])
    with tarfile.open(archive) as code:
        code.extractall(folder, filter="data")
    return folder


def written(old_code: Path, folder: Path, *how: str) -> None:
    subprocess.run(
        [sys.executable, ROOT / "tests" / "log" / "old_log.py", folder, old_code, *how],
        check=True,
        env={**os.environ, "PYTHONPATH": str(old_code)},
    )


def check(folder: Path, epoch: int) -> None:
    """Check that an old log is complete and continues."""
    log = LogFile(folder, Retention(), sync=False)
    own = log.origin
    events, damages = read_past_damage(log)
    assert not damages and not log.startup_repairs.lost
    wanted = [*made(own, 1, 70, 1), *made("far", 11, 70, 71), *made(own, 71, 2, 141)]
    assert [(e.place, e.serial, e.record, e.document) for e in events[:142]] == [
        (e.place, e.serial, e.record, e.document) for e in wanted
    ]
    assert log.bounds.epoch >= epoch and log.bounds.first == 1
    assert log.covered == {own: (1, log.bounds.offset), "far": (1, 90)}
    assert log.begins_after == {"far": (1, 10)}
    assert log.replica_spans == {"kept": ReplicaSpan((1, 0), (1, 4), "c/kept")}
    assert len(log.read_replica("kept", (1, 1), 9, 1 << 20)) == 3
    assert len(log.read_origin("far", (1, 30), 99, 1 << 20)) == 50
    assert log.durables() == [(b"a\0d", b"\x90stored")]
    assert log.stored_window(("a", 3)) == bytes(24)
    assert log.newest_incarnation("a") == b"newest"
    last = log.bounds.last
    added = made(own, log.bounds.offset + 1, 1, last + 1)
    log.commit(Commit(added, covered={own: added[-1].mark}), log.bounds.epoch, 0)
    assert log.first_after(own, (1, 60)) == 61
    log.close()


@pytest.mark.parametrize(("end", "epoch"), [("close", 1), ("crash", 2)])
def test_a_log_of_the_previous_version_is_upgraded(
    old_code: Path, tmp_path: Path, end: str, epoch: int
) -> None:
    written(old_code, tmp_path, end)
    check(tmp_path, epoch)
    check(tmp_path, epoch)
    # Upgraded values are checked.
    damage_folder(tmp_path, "durables", lambda value: flipped(value, 90))
    log = LogFile(tmp_path, Retention(), sync=False)
    assert (log.durables(), log.startup_repairs.healed) == ([(b"a\0d", b"\x90stored")], 1)


class _KilledError(Exception):
    pass


def test_a_kill_during_the_upgrade_leaves_the_old_format(old_code: Path, tmp_path: Path) -> None:
    class Killed(LogFile):
        @contextmanager
        def _writing(self) -> Iterator[lmdb.Transaction]:
            with super()._writing() as txn:
                yield txn
                raise _KilledError

    written(old_code, tmp_path)
    with pytest.raises(_KilledError) as caught:
        Killed(tmp_path, Retention(), sync=False)
    caught.value.__traceback__.tb_next.tb_frame.f_locals["self"].crash()  # type: ignore[union-attr]
    with lmdb.open(str(tmp_path), max_dbs=MAX_TABLES) as env, env.begin() as txn:
        assert txn.get(b"format", db=env.open_db(b"meta", txn, create=False)) == b"xmlbroker-log-3"
    check(tmp_path, 1)


def test_damage_in_unchecked_chunks_is_no_event(old_code: Path, tmp_path: Path) -> None:
    written(old_code, tmp_path)
    LogFile(tmp_path, Retention(), sync=False).close()
    # All that format 3 shows: the count, and the length of a document.
    for bit in (3, (5 + 24 + 22 * 60 + 3) * 8):
        damage_folder(tmp_path, "events", partial(flipped, bit=bit), 0)
        log = LogFile(tmp_path, Retention(), sync=False)
        events, (damage,) = read_past_damage(log)
        assert (damage.first, damage.origin) == (1, log.origin)
        assert damage.last >= 1 and events[0].serial == damage.last + 1
        log.close()
        damage_folder(tmp_path, "events", partial(flipped, bit=bit), 0)


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        (b"xmlbroker-log-5", LogTooNew, "newer version"),
        (b"xmlbroker-log-2", LogCorrupt, "too old"),
        (b"something", LogCorrupt, "no event log that this version knows"),
    ],
)
def test_other_formats_are_refused(
    tmp_path: Path, name: bytes, error: type[LogCorrupt], said: str
) -> None:
    with lmdb.open(str(tmp_path), max_dbs=MAX_TABLES) as env:
        meta = env.open_db(b"meta")
        with env.begin(write=True) as txn:
            txn.put(b"format", name, db=meta)
    with pytest.raises(error, match=said):
        LogFile(tmp_path, Retention(), sync=False)


def test_a_damaged_format_is_distinguished_from_another_one(tmp_path: Path) -> None:
    LogFile(tmp_path, Retention(), sync=False).close()
    # Bits of all bytes.
    for bit in range(0, 15 * 8, 5):
        with lmdb.open(str(tmp_path), max_dbs=MAX_TABLES) as env:
            meta = env.open_db(b"meta")
            with env.begin(write=True) as txn:
                txn.put(b"format", flipped(b"xmlbroker-log-4", bit), db=meta)
        LogFile(tmp_path, Retention(), sync=False).close()
