"""The care of a simulated archive: merges and deletions by a process that may end at any step."""

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

#: By so much (ms) the clock is ahead by which files are deleted: no reader is at any of them then.
_CLOCK_LEAD_MS: Final = 120_000
#: Steps of a whole run, about: the process may end at any of them.
_STEPS: Final = 40
_MERGES: Final = CompactionRules(min_files_in_open_hour=3)
_RULES: Final = ExpiryRules(grace_ms=_CLOCK_LEAD_MS + 1_000, aside_ms=_CLOCK_LEAD_MS + 10_000)


class SimulatedMaintenance:
    """Of one archive."""

    def __init__(self, uri: str, wall_clock: Callable[[], int]) -> None:
        self._uri = uri
        self._wall_clock = wall_clock
        self._seen: dict[tuple[str, int], int] = {}

    def run(self, random: Random) -> str:
        """Merge small files and delete what was replaced, as a process of its own; return what came
        of it."""
        ends_at = random.randrange(2 * _STEPS)
        try:
            merged = self._merge(ends_at)
            return f"merge {merged} files, delete {self._delete(random.randrange(2 * _STEPS))}"
        except ProcessDied:
            return "kill the process that cares for the archive"
        except BrokerError as error:
            return f"care for nothing: {error}"

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
    """A disk on which a file was changed when it was seen first: in virtual time."""

    def __init__(self, seen: dict[tuple[str, int], int], wall_clock: Callable[[], int]) -> None:
        super().__init__()
        self._seen = seen
        self._wall_clock = wall_clock

    def list_files(self, folder: Path) -> Iterator[tuple[str, int, int]]:
        for path, size, modified in super().list_files(folder):
            key = (f"{folder}/{path}", modified)
            yield path, size, self._seen.setdefault(key, self._wall_clock())
