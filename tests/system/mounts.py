"""Small disks of their own for tests."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.capability import need, skip


@contextlib.contextmanager
def mounted_tmpfs(folder: Path, options: str) -> Iterator[Path]:
    """A disk in memory on `folder`; skips the test where this user may not mount."""
    need("mounts")
    folder.mkdir()
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounting.returncode:
        skip("mounts", mounting.stderr.strip())
    try:
        yield folder
    finally:
        # Lazily: a process that is still ending must not keep the mount for ever.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
