"""A truncated or damaged log file is reported before LMDB crashes on it."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from random import Random

import lmdb
import pytest

from broker.errors import BrokerError, LogCorrupt
from broker.log.checksum import add_checksum
from broker.log.commit import Commit, Retention
from broker.log.external_reader import ExternalReader
from broker.log.file_rebuild import rebuild_file
from broker.log.log_file import LogFile
from broker.log.log_verification import Verification
from broker.log.page_check import check_pages, check_transaction
from broker.log.page_file import FILE, PageFile
from broker.log.tables import MAX_TABLES, Tables
from tests.log.old_log import made


def written(folder: Path, count: int = 300) -> None:
    log = LogFile(folder, Retention(), sync=False)
    for first in range(1, count, 10):
        events = made(log.origin, first, 10, first)
        log.commit(Commit(events, covered={log.origin: events[-1].mark}), 1, 0)
    log.close()


def test_all_pages_of_a_log_are_read_as_lmdb_reads_them(tmp_path: Path) -> None:
    written(tmp_path)
    log = LogFile(tmp_path, Retention(), sync=False)
    wanted = {}
    with log._reading() as txn:
        for name in (b"events", b"origins", b"meta", b"copies", b"kept"):
            with txn.cursor(db=log._env.open_db(name)) as cursor:
                wanted[name] = [(bytes(key), bytes(value)) for key, value in cursor]
    assert isinstance(log._tables, Tables)
    log.crash()
    file = PageFile(tmp_path / FILE)
    roots = file.tables(file.newest)
    found = {name: list(file.items(name, root)) for name, root in roots.items()}
    assert {name: found[name] for name in wanted} == wanted and not file.problems
    check_pages(file, file.newest)
    assert [check_transaction(file, meta) for meta in file.metas] == [
        meta.transaction for meta in file.metas
    ]
    assert not file.problems
    file.close()


@pytest.mark.parametrize("part", [0.0, 0.001, 0.01, 0.3, 0.6, 0.9, 0.95])
def test_a_truncated_file_is_reported_with_advice(tmp_path: Path, part: float) -> None:
    written(tmp_path)
    path = tmp_path / FILE
    size = path.stat().st_size
    with open(path, "r+b") as file:
        file.truncate(int(size * part))
    with pytest.raises(LogCorrupt, match="verify --repair|restore the folder") as caught:
        LogFile(tmp_path, Retention(), sync=False)
    assert "cut short" in caught.value.text or "meta page" in caught.value.text


@pytest.mark.parametrize("page", [0, 1])
@pytest.mark.parametrize("at", [10, 16, 20, 40])
def test_a_damaged_meta_page_is_reported_with_advice(tmp_path: Path, page: int, at: int) -> None:
    written(tmp_path, 30)
    path = tmp_path / FILE
    data = bytearray(path.read_bytes())
    data[page * 4096 + at] ^= 0x08 if at == 10 else 0x11
    path.write_bytes(data)
    with pytest.raises(LogCorrupt):
        LogFile(tmp_path, Retention(), sync=False)


def test_no_flipped_bit_makes_the_reader_of_pages_fail(tmp_path: Path) -> None:
    written(tmp_path, 60)
    path = tmp_path / FILE
    data = path.read_bytes()
    random = Random(1)
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(random.randrange(1, 40)):
            damaged[random.randrange(len(data) // 4096) * 4096 + random.randrange(200)] ^= 1 << (
                random.randrange(8)
            )
        path.write_bytes(damaged)
        try:
            file = PageFile(path)
        except BrokerError:
            continue
        for meta in file.metas:
            check_pages(file, meta)
            check_transaction(file, meta)
        file.close()


OPENED = """
import sys
from pathlib import Path
from broker.errors import BrokerError
from broker.log.commit import Retention
from broker.log.log_file import LogFile
try:
    LogFile(Path(sys.argv[1]), Retention())
except BrokerError as error:
    print(error.code)
"""


def test_a_cut_file_does_not_kill_the_process(tmp_path: Path) -> None:
    written(tmp_path)
    path = tmp_path / FILE
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size // 2)
    run = subprocess.run(
        [sys.executable, "-c", OPENED, tmp_path], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "log-corrupt"


def test_a_file_truncated_while_open_is_reported_before_a_read(tmp_path: Path) -> None:
    written(tmp_path)
    log = LogFile(tmp_path, Retention(), sync=False)
    last = log.bounds.last
    os.truncate(tmp_path / FILE, 200_000)
    # A write would extend it with zeros.
    for use in (
        lambda: log.read(1, 9, 1 << 20),
        lambda: log.commit(Commit(made(log.origin, last + 1, 1, last + 1)), 1, 0),
        log.reopen,
        log.reopen,
    ):
        with pytest.raises(LogCorrupt, match="cut short"):
            use()
    log.crash()


def test_a_file_truncated_while_others_read_it_is_reported(tmp_path: Path) -> None:
    written(tmp_path)
    along, verification = ExternalReader(tmp_path), Verification(tmp_path)
    os.truncate(tmp_path / FILE, 200_000)
    with pytest.raises(LogCorrupt, match="cut short"):
        along.read((0, 0), 9, 1 << 20)
    along.close()
    with pytest.raises(LogCorrupt, match="cut short"):
        ExternalReader(tmp_path)
    done = verification.verify(verification.rank_metas()[0], lambda done, of: None)
    assert any(each.kind == "page" for each in done.findings)
    verification.close()


def test_a_meta_page_that_names_another_transaction_is_damaged(tmp_path: Path) -> None:
    written(tmp_path)
    path = tmp_path / FILE
    data = path.read_bytes()
    # LMDB would silently use the older snapshot.
    for page in (0, 1):
        for bit in range(12):
            damaged = bytearray(data)
            damaged[page * 4096 + 144 + bit // 8] ^= 1 << (bit % 8)
            path.write_bytes(damaged)
            with pytest.raises(LogCorrupt, match=r"meta page|damaged pages"):
                LogFile(tmp_path, Retention(), sync=False)


def test_a_page_that_is_free_and_in_use_is_damage(tmp_path: Path) -> None:
    written(tmp_path)
    path = tmp_path / FILE
    file = PageFile(path)
    root = file.newest.free.root * 4096
    data = bytearray(path.read_bytes())
    used = file.tables(file.newest)[b"events"].root
    file.close()
    # Of the newest list.
    count = (int.from_bytes(data[root + 12 : root + 14], "little") - 16) // 2
    at = root + 16 + 2 * (count - 1)
    node = root + int.from_bytes(data[at : at + 2], "little")
    size = int.from_bytes(data[node : node + 2], "little")
    data[node + 16 + size - 8 : node + 16 + size] = used.to_bytes(8, "little")
    path.write_bytes(data)
    with pytest.raises(LogCorrupt, match="in use|can not be"):
        LogFile(tmp_path, Retention(), sync=False)


def test_an_older_value_beside_a_newer_copy_counts_no_more(tmp_path: Path) -> None:
    """A lost write leaves an older page: its places must not be given again."""
    written(tmp_path, 30)
    log = LogFile(tmp_path, Retention(), sync=False)
    own, newest = log.origin, log.bounds.offset
    log.crash()
    with lmdb.open(str(tmp_path), max_dbs=MAX_TABLES) as env:
        tables = Tables(env)
        with env.begin(write=True) as txn:
            for kind in (b"c", b"s"):
                key = kind + own.encode()
                tables.origins.checked_entries.put(txn, key, struct.pack(">IQ", 1, 20))
                older = add_checksum(b"o" + key, struct.pack(">IQ", 1, 10))
                txn.put(key, older, db=tables.origins_table)
    log = LogFile(tmp_path, Retention(), sync=False)
    assert log.covered[own][1] == log.bounds.offset == newest == 30
    assert log.begins_after[own] == (1, 20)
    log.close()


def test_a_lost_list_of_tables_loses_no_commit(tmp_path: Path) -> None:
    written(tmp_path, 60)
    path = tmp_path / FILE
    file = PageFile(path)
    root = file.newest.main.root
    file.close()
    data = bytearray(path.read_bytes())
    data[root * 4096 : root * 4096 + 4096] = bytes(4096)
    path.write_bytes(data)
    rebuild_file(tmp_path)
    log = LogFile(tmp_path, Retention(), sync=False)
    assert [event.offset for event in log.read(1, 99, 1 << 20)] == list(range(1, 61))
    assert log.bounds.offset == 60
    log.close()


def test_a_node_that_reaches_into_another_is_damage(tmp_path: Path) -> None:
    """LMDB would delete both with one of them."""
    written(tmp_path)
    path = tmp_path / FILE
    file = PageFile(path)
    begins = file.tables(file.newest)[b"origins"].root * 4096
    file.close()
    data = bytearray(path.read_bytes())
    # Of its second node.
    at = begins + int.from_bytes(data[begins + 18 : begins + 20], "little") + 6
    data[at] ^= 0x40
    path.write_bytes(data)
    with pytest.raises(LogCorrupt, match="overlap|outside of its page"):
        LogFile(tmp_path, Retention(), sync=False)


def test_a_key_of_another_table_is_no_event(tmp_path: Path) -> None:
    written(tmp_path, 30)
    with lmdb.open(str(tmp_path), max_dbs=MAX_TABLES) as env, env.begin(write=True) as txn:
        txn.put(b"strange", b"value", db=env.open_db(b"events", txn))
    log = LogFile(tmp_path, Retention(), sync=False)
    assert [event.offset for event in log.read(1, 99, 1 << 20)] == list(range(1, 31))
    assert (log.bounds.first, log.bounds.last) == (1, 30)
    log.close()
