from __future__ import annotations

import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.cli.publishing.published_table import (
    MAX_UNWRITTEN,
    MAX_VALUE,
    PublishedTable,
    table_key,
)
from broker.errors import TableUnavailable


def key(number: int) -> bytes:
    return table_key("id", str(number))


def crashed_copy(table: PublishedTable, folder: Path) -> Path:
    """The files that a process leaves that is killed now."""
    folder.mkdir()
    for path in table.path.parent.glob(f"{table.path.name}*"):
        shutil.copy(path, folder)
    return folder / table.path.name


@pytest.fixture
def table(tmp_path: Path) -> Iterator[PublishedTable]:
    with closing(PublishedTable(tmp_path / "state" / "t.db", most=100)) as table:
        yield table


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.integers(0, 30), st.binary(max_size=3)),
        st.tuples(st.sampled_from(("flush", "close", "crash")), st.just(0), st.just(b"")),
    ),
    max_size=40,
)


@settings(max_examples=40, deadline=None)
@given(ACTIONS)
def test_flushed_entries_outlive_the_process_and_no_others(
    actions: list[tuple[str, int, bytes]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "0", "t.db")
        table = PublishedTable(path)
        seen: dict[int, bytes] = {}
        durable: dict[int, bytes] = {}
        for turn, (action, number, value) in enumerate(actions):
            if action == "record":
                table.record(key(number), value)
                seen[number] = value
            elif action == "flush":
                table.flush()
                durable = dict(seen)
            else:
                if action == "crash":
                    path = crashed_copy(table, Path(folder, str(turn + 1)))
                table.close()
                table = PublishedTable(path)
                seen = dict(durable)
            assert [table.find(key(n)) for n in range(31)] == [seen.get(n) for n in range(31)]
        table.flush()
        assert len(table) == len(seen)
        table.close()


def test_the_longest_unused_entries_go_first(table: PublishedTable) -> None:
    for number in range(100):
        table.record(key(number))
        table.flush()
    assert table.find(key(0)) == b""
    for number in range(100, 150):
        table.record(key(number))
    table.flush()
    # 0 was used, 1 to 50 are the oldest others.
    assert [n for n in range(150) if table.find(key(n)) is not None] == [0, *range(51, 150)]


def test_the_file_is_bounded_and_private(table: PublishedTable) -> None:
    for number in range(20_000):
        table.record(key(number), b"x" * 8)
        if not number % 500:
            table.flush()
    table.flush()
    assert len(table) == 100
    files = list(table.path.parent.iterdir())
    assert sum(path.stat().st_size for path in files if path.suffix == ".db") < 200_000
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(table.path.parent.stat().st_mode) == 0o700


def test_entries_in_memory_are_bounded(tmp_path: Path) -> None:
    with closing(PublishedTable(tmp_path / "t.db")) as table:
        for number in range(MAX_UNWRITTEN):
            table.record(key(number))
        assert len(table) == MAX_UNWRITTEN


def test_parts_of_a_key_are_not_joined() -> None:
    keys = {table_key("a", "bc"), table_key("ab", "c"), table_key("abc"), table_key("abc", "")}
    assert len(keys) == 4


def test_a_value_is_bounded(table: PublishedTable) -> None:
    with pytest.raises(ValueError, match="at most"):
        table.record(key(1), b"x" * (MAX_VALUE + 1))


def test_a_second_process_is_refused(table: PublishedTable) -> None:
    with pytest.raises(TableUnavailable, match="another process uses it"):
        PublishedTable(table.path)


def test_a_full_disk_is_an_error_and_leaves_the_flushed_entries(table: PublishedTable) -> None:
    table.record(key(1))
    table.flush()
    pages = table._database.execute("PRAGMA page_count").fetchone()[0]
    table._database.execute(f"PRAGMA max_page_count = {pages}")
    for number in range(2, 90):
        table.record(key(number), b"x" * 2000)
    with pytest.raises(TableUnavailable, match="disk is full"):
        table.flush()
    table._database.execute("PRAGMA max_page_count = 100000")
    table.flush()
    assert len(table) == 89


def make_other_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE mine (x)")


def make_newer_table(path: Path) -> None:
    PublishedTable(path).close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 9")


def make_text(path: Path) -> None:
    path.write_text("this is a text " * 100)


@pytest.mark.parametrize("make", [make_other_database, make_newer_table, make_text])
def test_another_file_is_refused_and_not_changed(make: object, tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    assert callable(make)
    make(path)
    before = path.read_bytes()
    with pytest.raises(TableUnavailable, match=r"t\.db: .*without the file everything"):
        PublishedTable(path)
    assert path.read_bytes() == before


def test_a_folder_that_can_not_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TableUnavailable, match=r"file/t\.db: (File exists|Not a directory)"):
        PublishedTable(tmp_path / "file" / "t.db")
