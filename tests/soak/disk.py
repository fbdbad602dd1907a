from __future__ import annotations

import os
import resource
import shutil
import subprocess
from pathlib import Path
from typing import Final

#: With LMDB pages written beside old ones.
SIZE: Final = 192 << 20
_BLOCK: Final = b"\0" * (1 << 20)


class Disk:
    """A tmpfs if the user may mount one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.mounted = os.geteuid() == 0 and _mount(folder)

    def fill(self, pid: int) -> None:
        """Without a mount, limit files to 64 KiB."""
        if not self.mounted:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
            return
        with open(self.folder / "ballast", "wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(_BLOCK)
            except OSError:
                return

    def free(self, pid: int) -> None:
        if self.mounted:
            (self.folder / "ballast").unlink(missing_ok=True)
        else:
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)

    def close(self, *, keep: bool = False) -> None:
        """With `keep`, copy the files first."""
        if self.mounted:
            if keep:
                kept = self.folder.with_name(self.folder.name + "-kept")
                copy(self.folder, kept)
            self.mounted = False
            subprocess.run(["umount", "--lazy", str(self.folder)], check=False)


def copy(folder: Path, target: Path) -> None:
    """Sockets are not copied."""
    shutil.copytree(folder, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.socket"))


def _mount(folder: Path) -> bool:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    return done.returncode == 0
