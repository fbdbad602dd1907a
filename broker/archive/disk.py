"""The steps by which something is made durable on a local file system, each of them one call.

A test puts a disk in its place that forgets what was not synced, or dies between two steps.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

#: What a file system answers that knows no second name for a file.
_NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS}


class Disk:
    """The disk of this machine. Raises OSError."""

    def write(self, path: Path, data: bytes | memoryview) -> None:
        """Write a file that is not there yet, and sync what is in it."""
        with open(path, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another name; one that has that name already is replaced."""
        os.replace(old, new)

    def rename_new(self, old: Path, new: Path) -> None:
        """Give a file another name; FileExistsError if one has that name already."""
        try:
            os.link(old, new)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if new.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new) from None
            os.replace(old, new)
        else:
            os.unlink(old)

    def remove(self, path: Path) -> None:
        """Remove a file; nothing happens if there is none."""
        path.unlink(missing_ok=True)

    def remove_folder(self, path: Path) -> None:
        """Remove a folder; OSError unless it is empty."""
        path.rmdir()

    def make_folder(self, path: Path) -> None:
        """Make one folder; nothing happens if it is there."""
        path.mkdir(exist_ok=True)

    def sync_folder(self, path: Path) -> None:
        """Make names in a folder durable."""
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def read(self, path: Path) -> bytes:
        """All bytes of a file."""
        return path.read_bytes()

    def is_folder(self, path: Path) -> bool:
        """Whether there is such a folder."""
        return path.is_dir()

    def open(self, path: Path) -> pa.NativeFile:
        """A file to read parts of."""
        return pa.OSFile(str(path))

    def list_files(self, folder: Path) -> Iterator[tuple[str, int, int]]:
        """All files below a folder: path in it, bytes, and when it was changed last, in ms since
        1970; none if there is no such folder."""
        return _list_files(str(folder), "")


def _list_files(folder: str, name: str) -> Iterator[tuple[str, int, int]]:
    # With scandir a file costs a third of what it does with Path: pages are thousands.
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir():
            yield from _list_files(entry.path, f"{name}{entry.name}/")
            continue
        try:
            about = entry.stat()
        except FileNotFoundError:
            continue
        yield f"{name}{entry.name}", about.st_size, about.st_mtime_ns // 1_000_000
