"""Merges and deletions in a simulated archive, by a process that may die at any step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final

from broker.archive.archive import Archive
from broker.archive.compaction import Compaction, CompactionRules
from broker.archive.expiry import Expiry, ExpiryRules
from broker.archive.layout import MAINTENANCE_PREFIX
from broker.archive.manifest_journal import ManifestWriter
from broker.errors import BrokerError
from broker.testing.dying_disk import DyingDisk, ProcessDied

#: No reader uses the files by then.
_CLOCK_LEAD_MS: Final = 120_000
#: Approximate steps of a whole run.
_STEPS: Final = 40
_MERGES: Final = CompactionRules(min_files_in_open_hour=3)
_RULES: Final = ExpiryRules(grace_ms=_CLOCK_LEAD_MS + 1_000, aside_ms=_CLOCK_LEAD_MS + 10_000)


class SimulatedMaintenance:
    def __init__(self, uri: str, wall_clock: Callable[[], int]) -> None:
        self._uri = uri
        self._wall_clock = wall_clock
        self._seen: dict[tuple[str, int], int] = {}

    def run(self, random: Random) -> str:
        """Return a summary."""
        ends_at = random.randrange(2 * _STEPS)
        try:
            merged = self._merge(ends_at)
            return f"merge {merged} files, delete {self._delete(random.randrange(2 * _STEPS))}"
        except ProcessDied:
            return "kill the maintenance process of the archive"
        except BrokerError as error:
            return f"maintain nothing: {error}"

    def _merge(self, ends_at: int) -> int:
        archive = self._open(ends_at, self._wall_clock)
        return Compaction(archive, self._ledger(archive), _MERGES).run().files_before

    def _delete(self, ends_at: int) -> int:
        archive = self._open(ends_at, lambda: self._wall_clock() + _CLOCK_LEAD_MS)
        return len(Expiry(archive, self._ledger(archive), _RULES).run().deleted)

    def _open(self, ends_at: int, wall_clock: Callable[[], int]) -> Archive:
        disk = _MaintenanceDisk(self._seen, self._wall_clock)
        disk.steps_left = ends_at
        return Archive.open(self._uri, create=False, wall_clock=wall_clock, disk=disk)

    def _ledger(self, archive: Archive) -> ManifestWriter:
        return ManifestWriter(
            archive.manifests, f"{MAINTENANCE_PREFIX}simulated", archive.wall_clock
        )


class _MaintenanceDisk(DyingDisk):
    """Disk in virtual time: files change when first seen."""

    def __init__(self, seen: dict[tuple[str, int], int], wall_clock: Callable[[], int]) -> None:
        super().__init__()
        self._seen = seen
        self._wall_clock = wall_clock

    def list_files(self, folder: Path) -> Iterator[tuple[str, int, int]]:
        for path, size, modified in super().list_files(folder):
            key = (f"{folder}/{path}", modified)
            yield path, size, self._seen.setdefault(key, self._wall_clock())
