"""A real disk whose process dies after some steps."""

from __future__ import annotations

from pathlib import Path

from broker.archive.disk import Disk


class ProcessDied(BaseException):
    """End of a simulated process between two steps."""


class DyingDisk(Disk):
    """Writes and renames are steps. Nothing is synced, since no power is lost."""

    def __init__(self) -> None:
        self.steps_left = -1
        """Negative: unlimited."""

    def _step(self) -> None:
        if self.steps_left == 0:
            raise ProcessDied
        self.steps_left -= 1

    def write(self, path: Path, data: bytes | memoryview) -> None:
        self._step()
        super().write(path, data)

    def rename(self, old: Path, new: Path) -> None:
        self._step()
        super().rename(old, new)

    def rename_new(self, old: Path, new: Path) -> None:
        self._step()
        super().rename_new(old, new)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)

    def sync_folder(self, path: Path) -> None:
        self._step()
