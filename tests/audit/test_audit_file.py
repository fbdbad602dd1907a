from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from broker.audit import AuditFile
from broker.errors import ConfigurationError

ROOM = 40


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_full_files_are_renamed_and_the_oldest_is_removed(tmp_path: Path) -> None:
    file = AuditFile(tmp_path / "audit.jsonl", ROOM, 3)
    for number in range(10):
        file.append([f"{number}" * 15, f"{number}" * 15])
    assert names(tmp_path) == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    newest = [(tmp_path / name).read_text()[0] for name in names(tmp_path)]
    assert newest == ["9", "8", "7"]
    assert all(path.stat().st_size <= ROOM for path in tmp_path.iterdir())


def test_one_file_alone_begins_anew_when_it_is_full(tmp_path: Path) -> None:
    file = AuditFile(tmp_path / "audit.jsonl", ROOM, 1)
    for number in range(3):
        file.append([f"{number}" * 30])
    assert names(tmp_path) == ["audit.jsonl"]
    assert (tmp_path / "audit.jsonl").read_text() == "2" * 30 + "\n"


def test_only_the_owner_can_read_the_files_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.touch(0o644)
    path.chmod(0o644)
    old = os.umask(0)
    try:
        file = AuditFile(path, ROOM, 2)
        for _ in range(3):
            file.append(["x" * 30])
    finally:
        os.umask(old)
    assert {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()} == {0o600}


def test_a_part_of_a_line_does_not_swallow_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text('{"action": "lo')
    AuditFile(path, 1000, 2).append(["next"])
    assert path.read_text().splitlines() == ['{"action": "lo', "next"]


def test_a_failed_write_leaves_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    file = AuditFile(path, 1000, 2)
    file.append(["first"])
    write = os.write

    def fill_disk(descriptor: int, data: bytes) -> int:
        if len(data) > 3:
            return write(descriptor, data[:3])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fill_disk)
        with pytest.raises(OSError, match="No space"):
            file.append(["abc" * 5])
    file.append(["second"])
    assert path.read_text() == "first\nsecond\n"


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_only_a_regular_file_is_accepted(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "audit.jsonl"
    if kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(ConfigurationError, match="audit.file"):
        AuditFile(path, ROOM, 2).check()


def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    AuditFile(tmp_path / "log" / "audit.jsonl", ROOM, 2).check()
    assert names(tmp_path / "log") == ["audit.jsonl"]
