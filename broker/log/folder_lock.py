"""A lock that gives a folder to one process at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path

from broker.errors import LogUnavailable


def lock_folder(folder: Path) -> int:
    """Lock a folder for one process, until the returned descriptor or the process closes.

    LMDB would allow two writers, which would give one offset to two events. Raises `LogUnavailable`
    if the folder is in use or can not be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        claim = os.open(folder / "claim", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise open_error(folder, error) from None
    try:
        fcntl.lockf(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(claim)
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise LogUnavailable(f"the event log {folder} is in use by another process") from None
        raise open_error(folder, error) from None
    return claim


def open_error(folder: Path, error: Exception) -> LogUnavailable:
    return LogUnavailable(f"the event log {folder} can not be opened: {error}")


def has_been_used(claim: int) -> bool:
    return bool(os.pread(claim, 1, 0))


def mark_used(claim: int) -> None:
    if not has_been_used(claim):
        os.pwrite(claim, b"1", 0)
        os.fsync(claim)


def is_disk_full(folder: Path) -> bool:
    """Return True if less than a mebibyte is free."""
    try:
        return shutil.disk_usage(folder).free < 1 << 20
    except OSError:
        return False
