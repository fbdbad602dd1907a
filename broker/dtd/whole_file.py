"""A small file that is replaced as a whole: after a crash it is the old one or the new one."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def write_whole(path: Path, data: bytes, *, sync: bool) -> None:
    """Replace a file durably; `OSError` passes through, and the old file stays."""
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


def write_checked(path: Path, data: bytes, *, sync: bool) -> None:
    """Replace a file of which damage is to be noticed: its hash stands in the first line."""
    write_whole(path, _hash(data) + b"\n" + data, sync=sync)


def read_checked(path: Path) -> bytes | None:
    """What `write_checked` wrote, None if there is no file; `ValueError` if it is damaged."""
    try:
        content_hash, _, data = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(str(error)) from None
    if content_hash != _hash(data):
        raise ValueError("its content does not have its hash")
    return data


def _hash(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()
