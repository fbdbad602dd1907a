"""Archive maintenance: compact small files, expire old hours, delete removed files.

`python -m broker.archiver.maintenance` does it once, in a child process of the archiver, so flushes
do not wait. It inherits the archiver's niceness, which leaves it a tenth of a busy processor. With
the greatest niceness (1.5 %) files would arrive faster than they are merged. It may end at any
moment, and ends when its standard input closes. It prints a `MaintenanceResult` as a line of JSON.
"""

from __future__ import annotations

import fcntl
import json
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs
import click

from broker.archive.archive import Archive
from broker.archive.compaction import Compaction, CompactionRules
from broker.archive.expiry import Expiry, ExpiryRules
from broker.archive.maintenance_lease import MaintenanceLease
from broker.archive.manifest_journal import ManifestWriter
from broker.archive.retention import Retention
from broker.archiver.durable_needs import find_durable_needs
from broker.archiver.maintenance_rules import MaintenanceRules
from broker.errors import BrokerError
from broker.private_files import open_private

#: Ms between searches. Each lists the whole store.
EXPIRY_INTERVAL: Final = 600_000


@attrs.define
class MaintenanceResult:
    merged: int = 0
    """Files that were merged."""
    made: int = 0
    """Files that replaced them."""
    removed: int = 0
    """Files that expired."""
    deleted: int = 0
    held: str = ""
    """The hour that would expire if no durable subscription needed it."""
    problems: list[str] = attrs.field(factory=list)


class Maintenance:
    """All methods block, and may raise `ArchiveUnavailable`."""

    def __init__(
        self,
        archive: Archive,
        rules: MaintenanceRules,
        name: str,
        compaction: CompactionRules | None = None,
    ) -> None:
        """`name` must be unique among running writers."""
        self._archive = archive
        self._rules = rules
        self._compaction = compaction or CompactionRules()
        self._ledger = ManifestWriter(archive.manifests, name, archive.wall_clock)
        self._lease = MaintenanceLease(archive.objects, name, archive.wall_clock)

    def is_due(self) -> bool:
        """Return quickly whether there is work that no other node does."""
        if self._rules.is_empty or not self._lease.is_free():
            return False
        return self._is_expiry_due() or (
            self._rules.compact and bool(self._new_compaction().plan())
        )

    def run(self, cancelled: Callable[[], bool] = lambda: False) -> MaintenanceResult:
        """Do the due work if the lease is free. Ends soon after `cancelled` returns true."""
        result = MaintenanceResult()
        if self._rules.is_empty or not self._lease.acquire():
            return result

        def is_over() -> bool:
            return cancelled() or not self._lease.renew()

        expired = False
        if self._rules.compact:
            self._compact(result, is_over)
        if self._is_expiry_due() and not is_over():
            self._expire(result)
            expired = True
        # After a failure the lease stays, so the next run does not start at once.
        self._lease.release(expired=expired)
        return result

    def _is_expiry_due(self) -> bool:
        return not 0 <= self._archive.wall_clock() - self._lease.last_expiry() < EXPIRY_INTERVAL

    def _new_compaction(self) -> Compaction:
        return Compaction(self._archive, self._ledger, self._compaction)

    def _compact(self, result: MaintenanceResult, is_over: Callable[[], bool]) -> None:
        done = self._new_compaction().run(cancelled=is_over)
        result.merged, result.made = done.files_before, done.files_after
        result.problems += [f"{path} is damaged and was set aside" for path in done.damaged]

    def _expire(self, result: MaintenanceResult) -> None:
        rules = self._rules
        retention = Retention(rules.age_ms, rules.max_bytes, rules.max_events)
        needed = find_durable_needs(self._archive, result.problems.append)
        expiry = Expiry(self._archive, self._ledger, ExpiryRules(retention), needed)
        done = expiry.run(lambda done, of: self._lease.renew())
        result.removed, result.deleted = len(done.removed), len(done.deleted)
        result.held = done.held
        if done.kept_orphans:
            result.problems.append(
                f"{done.kept_orphans} files stay that a damaged manifest may list: see "
                "`xmlbroker archive list`"
            )


def _is_parent_gone() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


@click.command(help=__doc__)
@click.option("--archive", "uri", required=True)
@click.option("--name", required=True)
@click.option("--lock", type=click.Path(path_type=Path), required=True)
@click.option("--rules", type=MaintenanceRules.decode, required=True)
def main(uri: str, name: str, lock: Path, rules: MaintenanceRules) -> None:
    result = MaintenanceResult()
    # A killed archiver's process may still write under the same name.
    with open(lock, "ab", opener=open_private) as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            result = Maintenance(Archive.open(uri, create=False), rules, name).run(_is_parent_gone)
        except BlockingIOError:
            pass
        except BrokerError as error:
            result.problems.append(str(error))
    print(json.dumps(attrs.asdict(result)))


if __name__ == "__main__":
    main()
