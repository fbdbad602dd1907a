"""File of audit records that is replaced when it is full."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from broker.errors import ConfigurationError

_MODE: Final = 0o600


class AuditFile:
    """Files `NAME`, `NAME.1`, ... with mode 0600; `NAME` is the newest.

    All calls block for the disk. One thread calls at a time.
    """

    def __init__(self, path: Path, max_bytes: int, max_files: int) -> None:
        """A file of `max_bytes` is renamed; beyond `max_files` the oldest is removed."""
        self._path = path
        self._max_bytes = max_bytes
        self._max_files = max_files

    def check(self) -> None:
        """Raise `ConfigurationError` unless the file can be written."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(self._open())
        except OSError as error:
            raise ConfigurationError(
                f"audit.file {self._path} can not be written: {error.strerror}"
            ) from None

    def append(self, lines: Sequence[str]) -> None:
        """Append lines, all or none. Raises `OSError`."""
        data = "".join(f"{line}\n" for line in lines).encode()
        with contextlib.suppress(FileNotFoundError):
            size = self._path.stat().st_size
            if size and size + len(data) > self._max_bytes:
                self._rotate()
        file = self._open()
        try:
            size = os.fstat(file).st_size
            if size and os.pread(file, 1, size - 1) != b"\n":
                # A process that was killed has left a part of a line.
                data = b"\n" + data
            try:
                rest = data
                while rest:
                    rest = rest[os.write(file, rest) :]
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(file, size)
                raise
        finally:
            os.close(file)

    def _open(self) -> int:
        # A link in a folder that others can write would let them choose the file.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        # A pipe without a reader would block.
        file = os.open(self._path, flags | os.O_NONBLOCK, _MODE)
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            os.close(file)
            raise OSError(0, "it is not a regular file")
        if stat.S_IMODE(status.st_mode) != _MODE:
            os.fchmod(file, _MODE)
        return file

    def _rotate(self) -> None:
        for number in range(self._max_files - 1, 0, -1):
            older = self._numbered(number)
            newer = self._numbered(number - 1)
            with contextlib.suppress(FileNotFoundError):
                newer.replace(older)
        if self._max_files == 1:
            self._path.unlink()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path
