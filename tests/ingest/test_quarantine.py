from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, succeed

from broker.errors import NotValid
from broker.ingest.quarantine import MAX_WAITING, MAX_WAITING_BYTES, Quarantine
from broker.limit_registry import LimitRegistry

ERROR = NotValid("element flight is not declared", line=3, column=7)


def at_once(call: Callable[..., Any], *args: Any) -> Deferred[None]:
    call(*args)
    return succeed(None)


def quarantine(
    folder: Path, *, files: int = 3, size: int = 1000, limits: LimitRegistry | None = None
) -> Quarantine:
    return Quarantine(
        folder,
        max_files=files,
        max_bytes=size,
        limit_registry=limits or LimitRegistry(),
        write=at_once,
        wall_clock=lambda: 42,
    )


def kept(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob("*.xml"), key=lambda p: int(p.stem))]


def test_it_stores_the_bytes_the_sender_and_the_error(tmp_path: Path) -> None:
    quarantine(tmp_path).add_document(b"<flight>\xff", ERROR, "alice")
    assert kept(tmp_path) == [b"<flight>\xff"]
    note = json.loads((tmp_path / "1.json").read_text())
    assert note == {
        "sender": "alice",
        "time_ms": 42,
        "code": "not-valid",
        "error": "element flight is not declared",
        "line": 3,
        "column": 7,
    }


def test_the_oldest_is_deleted_beyond_the_number_of_files(tmp_path: Path) -> None:
    room = quarantine(tmp_path)
    for number in range(5):
        room.add_document(b"%d" % number, ERROR, "alice")
    assert kept(tmp_path) == [b"2", b"3", b"4"]
    assert len(list(tmp_path.iterdir())) == 6


def test_the_oldest_is_deleted_beyond_the_number_of_bytes(tmp_path: Path) -> None:
    limits = LimitRegistry()
    room = quarantine(tmp_path, files=100, size=10, limits=limits)
    for letter in b"abc":
        room.add_document(bytes([letter]) * 4, ERROR, "alice")
    assert kept(tmp_path) == [b"bbbb", b"cccc"]
    files, size, *_ = limits
    assert (files.find_used(), files.reached) == (2, 0)
    assert (size.find_used(), size.reached) == (8, 1)


def test_a_document_larger_than_the_folder_is_not_stored(tmp_path: Path) -> None:
    room = quarantine(tmp_path, size=10)
    room.add_document(b"small", ERROR, "alice")
    room.add_document(b"x" * 11, ERROR, "alice")
    assert kept(tmp_path) == [b"small"]


def test_numbers_and_bounds_survive_a_restart(tmp_path: Path) -> None:
    quarantine(tmp_path).add_document(b"before", ERROR, "alice")
    room = quarantine(tmp_path)
    for number in range(3):
        room.add_document(b"%d" % number, ERROR, "alice")
    assert kept(tmp_path) == [b"0", b"1", b"2"]


def test_a_full_disk_raises_no_error(tmp_path: Path) -> None:
    room = quarantine(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    room.add_document(b"<a/>", ERROR, "alice")
    assert list(tmp_path.iterdir()) == []


def test_a_deleted_folder_raises_no_error(tmp_path: Path) -> None:
    folder = tmp_path / "quarantine"
    full = quarantine(folder, files=1)
    full.add_document(b"<a/>", ERROR, "alice")
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.write_bytes(b"in its place")
    full.add_document(b"<b/>", ERROR, "alice")
    assert folder.read_bytes() == b"in its place"


def test_documents_beyond_the_bound_of_waiting_ones_are_dropped_and_counted(
    tmp_path: Path,
) -> None:
    writes: list[tuple[Deferred[None], Callable[..., Any], tuple[Any, ...]]] = []
    limits = LimitRegistry()

    def later(call: Callable[..., Any], *args: Any) -> Deferred[None]:
        writes.append((Deferred(), call, args))
        return writes[-1][0]

    def write_all() -> None:
        for done, call, args in writes:
            call(*args)
            done.callback(None)
        writes.clear()

    def waiting() -> list[tuple[float, int]]:
        return [(each.find_used(), each.reached) for each in limits if "waiting" in each.name]

    room = Quarantine(
        tmp_path,
        max_files=2000,
        max_bytes=2**30,
        limit_registry=limits,
        write=later,
        wall_clock=lambda: 42,
    )
    for _ in range(MAX_WAITING + 5):
        room.add_document(b"x", ERROR, "alice")
    assert waiting() == [(MAX_WAITING, 5), (MAX_WAITING, 0)]
    write_all()
    assert waiting() == [(0, 5), (0, 0)]
    for _ in range(3):
        room.add_document(b"x" * (MAX_WAITING_BYTES // 2), ERROR, "alice")
    assert waiting() == [(2, 5), (MAX_WAITING_BYTES, 1)]
    write_all()
    assert len(kept(tmp_path)) == MAX_WAITING + 2
