"""A small file that is replaced as a whole: after a crash it is the old one or the new one."""

from __future__ import annotations

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
