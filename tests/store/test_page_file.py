"""A log's file that was cut short, or has damaged pages, is told before LMDB crashes on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from broker.errors import BrokerError, LogCorrupt
from broker.store.commit import Commit, Retention
from broker.store.log_file import LogFile
from broker.store.page_file import FILE, PageFile
from broker.store.tables import Tables
from tests.store.old_log import made


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


@pytest.mark.parametrize("part", [0.0, 0.001, 0.01, 0.3, 0.6, 0.9, 0.95])
def test_a_file_that_was_cut_is_told_with_advice(tmp_path: Path, part: float) -> None:
    written(tmp_path)
    path = tmp_path / FILE
    size = path.stat().st_size
    with open(path, "r+b") as file:
        file.truncate(max(1, int(size * part)))
    with pytest.raises(LogCorrupt, match="verify --repair") as caught:
        LogFile(tmp_path, Retention(), sync=False)
    assert "cut short" in caught.value.text or "meta page" in caught.value.text


@pytest.mark.parametrize("page", [0, 1])
@pytest.mark.parametrize("at", [10, 16, 20, 40])
def test_a_damaged_meta_page_is_told_with_advice(tmp_path: Path, page: int, at: int) -> None:
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
            file.walk(meta)
        file.close()


OPENED = """
import sys
from pathlib import Path
from broker.errors import BrokerError
from broker.store.commit import Retention
from broker.store.log_file import LogFile
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
