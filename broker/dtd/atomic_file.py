"""Small files replaced as a whole: after a crash the old or the new content is there."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def write_atomically(path: Path, data: bytes, *, sync: bool, is_private: bool = False) -> None:
    """After a crash, or an `OSError`, the old or the new file is there.

    A private file has mode 0600, and the owner of the file that it replaces.
    """
    part = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        if is_private:
            part.unlink(missing_ok=True)
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            if path.exists() and os.geteuid() == 0:
                os.chown(part, path.stat().st_uid, path.stat().st_gid)
        with open(part, "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    if sync:
        opened = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def write_checksummed(path: Path, data: bytes, *, sync: bool) -> None:
    """A hash in the first line detects damage."""
    write_atomically(path, _hash(data) + b"\n" + data, sync=sync)


def read_checksummed(path: Path) -> bytes | None:
    """Return None without a file. Raises `ValueError` for damage."""
    try:
        content_hash, _, data = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(str(error)) from None
    if content_hash != _hash(data):
        raise ValueError("its content does not match its hash")
    return data


def _hash(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()
