"""Modes of files and folders: others on the machine read nothing unless a setting allows it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

#: New files have at most the mode 0600, new folders 0700.
PRIVATE_UMASK: Final = 0o077


def umask_for(mode: int) -> int:
    """Return the umask by which new files get a mode such as 0640, and new folders fit to it."""
    shared = mode & PRIVATE_UMASK
    return PRIVATE_UMASK & ~(shared | (shared & 0o044) >> 2)


def use_umask(umask: int) -> None:
    """Set the umask of this process and its children."""
    os.umask(umask)


def open_private(path: str, flags: int) -> int:
    """Open or create a file; the `opener` of `open`."""
    return os.open(path, flags, 0o600)


def make_private_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def find_wider_mode(path: Path, umask: int = PRIVATE_UMASK) -> str:
    """Return a sentence if others may do more with a path than new files allow; else nothing."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return ""
    if not mode & umask:
        return ""
    return f"{path} has the mode {mode:04o}: others on this machine can reach it; chmod it to " + (
        f"{mode & ~umask:04o}"
    )
