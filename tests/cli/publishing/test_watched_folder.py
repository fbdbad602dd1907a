from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.publishing.document_reader import Item, read_all
from broker.cli.publishing.preparation import Preparation
from broker.cli.publishing.publication import PortionEnd, Publication
from broker.cli.publishing.published_table import PublishedTable
from broker.cli.publishing.watched_folder import CompleteFiles, FileState, FolderWatch

FLIGHT = "<flight><id>%s</id><flightleg/></flight>"

STATES = st.builds(FileState, st.integers(0, 2), st.integers(1, 2))
SCANS = st.lists(st.dictionaries(st.sampled_from("abc"), STATES), max_size=8)


@given(SCANS)
def test_a_state_of_a_file_is_taken_once_and_if_two_scans_have_it(
    scans: list[dict[str, FileState]],
) -> None:
    files = CompleteFiles()
    taken: dict[str, FileState] = {}
    previous: dict[str, FileState] = {}
    for scan in scans:
        found = files.take(scan)
        expected = {
            path
            for path, state in scan.items()
            if previous.get(path) == state and taken.get(path) != state
        }
        assert set(found) == expected
        assert [scan[path] for path in found] == sorted(scan[path] for path in found)
        taken = {path: state for path, state in taken.items() if path in scan}
        taken |= {path: scan[path] for path in found}
        previous = scan


@pytest.fixture
def table(tmp_path: Path) -> Iterator[PublishedTable]:
    with closing(PublishedTable(tmp_path / "t.db")) as table:
        yield table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "in"
    made.mkdir()
    return made


def write(path: Path, text: str, modified: int = 1) -> None:
    path.write_text(text)
    os.utime(path, (modified, modified))


def watch(
    folder: Path,
    table: PublishedTable,
    *steps: Callable[[], object],
    options: bytes = b"",
    max_files: int = 100,
    refresh_scans: int = 1000,
) -> list[Item | PortionEnd]:
    """Run each step between two scans; the last one is after them all."""
    left = list(steps)

    def wait(_: float) -> bool:
        if left:
            left.pop(0)()
            return False
        return True

    def read_file(path: str) -> Iterator[Item]:
        return read_all((path,), lambda: open(os.devnull, "rb"), Preparation())

    found = []
    # Each portion is durable at once.
    watched = FolderWatch(
        (folder,), read_file, table, wait, options, max_files, refresh_scans=refresh_scans
    )
    for item in watched.read():
        found.append(item)
        if isinstance(item, PortionEnd) and item.key is not None:
            table.record(item.key, item.value)
    return found


def ids(items: list[Item | PortionEnd]) -> list[str]:
    shown = []
    for item in items:
        if isinstance(item, Publication):
            shown.append((item.payload or b"").decode().split("<id>")[1].split("<")[0])
        else:
            shown.append("end" if isinstance(item, PortionEnd) else item.reason)
    return shown


def test_a_file_is_read_when_it_is_complete(folder: Path, table: PublishedTable) -> None:
    file = folder / "a.xml"
    whole = FLIGHT % 1
    found = watch(
        folder,
        table,
        lambda: write(file, whole[:20]),
        lambda: write(file, whole, 2),
        lambda: None,
        lambda: None,
    )
    assert ids(found) == ["1", "end"]


def test_files_are_read_in_the_order_of_their_times(folder: Path, table: PublishedTable) -> None:
    write(folder / "a", FLIGHT % "late", 30)
    write(folder / "b", FLIGHT % "early", 10)
    (folder / "sub").mkdir()
    write(folder / "sub" / "c", FLIGHT % "middle", 20)
    assert ids(watch(folder, table, lambda: None)) == [
        "early",
        "end",
        "middle",
        "end",
        "late",
        "end",
    ]


def test_a_changed_file_is_read_again(folder: Path, table: PublishedTable) -> None:
    write(folder / "a", FLIGHT % 1)
    found = watch(
        *(folder, table, lambda: None, lambda: None),
        *(lambda: write(folder / "a", FLIGHT % 2, 2), lambda: None, lambda: None),
    )
    assert ids(found) == ["1", "end", "2", "end"]


def test_a_moved_in_file_with_the_time_of_another_is_read(
    folder: Path, table: PublishedTable
) -> None:
    write(folder / "a", FLIGHT % 1)
    write(folder.parent / "b", FLIGHT % 2)
    found = watch(
        folder,
        table,
        lambda: None,
        lambda: (folder.parent / "b").rename(folder / "b"),
        lambda: None,
    )
    assert ids(found) == ["1", "end", "2", "end"]


def test_recorded_files_are_not_read_after_a_restart(folder: Path, table: PublishedTable) -> None:
    write(folder / "a", FLIGHT % 1)
    assert ids(watch(folder, table, lambda: None)) == ["1", "end"]
    write(folder / "b", FLIGHT % 2)
    assert ids(watch(folder, table, lambda: None)) == ["2", "end"]
    # With other options they are other events.
    assert ids(watch(folder, table, lambda: None, options=b"x")) == ["1", "end", "2", "end"]


def test_hidden_empty_and_special_files_are_left_alone(folder: Path, table: PublishedTable) -> None:
    write(folder / ".a", FLIGHT % 1)
    (folder / "empty").touch()
    os.mkfifo(folder / "fifo")
    (folder / "dangling").symlink_to(folder / "nowhere")
    write(folder / "bad", "<flight>")
    found = ids(watch(folder, table, lambda: None, lambda: None))
    assert len(found) == 2
    assert found[0].startswith("not well-formed")


def test_a_missing_folder_is_reported_once_and_awaited(folder: Path, table: PublishedTable) -> None:
    def come_back() -> None:
        folder.mkdir()
        write(folder / "a", FLIGHT % 1)

    found = watch(folder, table, folder.rmdir, lambda: None, come_back, lambda: None)
    reason = "the folder can not be read now: No such file or directory"
    assert ids(found) == [reason, "end", "1", "end"]


def test_the_files_of_a_folder_are_bounded(folder: Path, table: PublishedTable) -> None:
    for number in range(4):
        write(folder / f"{number}", FLIGHT % number)
    found = watch(
        *(folder, table, lambda: None),
        *((folder / "0").unlink, (folder / "1").unlink, lambda: None, lambda: None),
        max_files=2,
    )
    assert ids(found) == [
        *("more than 2 files: the last ones by name wait", "end", "0", "end", "1", "end"),
        *("2", "end", "3", "end"),
    ]


@pytest.mark.parametrize(("refresh_scans", "is_known"), [(1, True), (1000, False)])
def test_a_full_table_keeps_the_entries_of_present_files(
    folder: Path, tmp_path: Path, refresh_scans: int, is_known: bool
) -> None:
    write(folder / "a", FLIGHT % 1)
    numbers = iter(range(100))
    with closing(PublishedTable(tmp_path / "small.db", most=10)) as table:

        def publish_others() -> None:
            for _ in range(4):
                table.record(str(next(numbers)).encode())
            table.flush()

        steps = (lambda: None, *[publish_others] * 10)
        assert ids(watch(folder, table, *steps, refresh_scans=refresh_scans)) == ["1", "end"]
        assert (ids(watch(folder, table, lambda: None)) == []) is is_known
