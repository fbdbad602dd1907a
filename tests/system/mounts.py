from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.capability import need, skip


@contextlib.contextmanager
def mounted_tmpfs(folder: Path, options: str) -> Iterator[Path]:
    """Skip the test if the user may not mount."""
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
        # Lazily, as a process that is still ending may use it.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
