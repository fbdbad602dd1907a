"""Small files replaced as a whole: after a crash the old or the new content is there."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def write_atomically(path: Path, data: bytes, *, sync: bool) -> None:
    """After a crash, or an `OSError`, the old or the new file is there."""
    part = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
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
