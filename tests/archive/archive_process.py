"""Processes on one archive: `python -m tests.archive.archive_process FOLDER PART`.

PART is the name of an origin, whose events are written from where the archive covers it until
`EVENTS` of them are there; or `care`, which merges and deletes until its stdin has ended. A line
is printed after each flush or round.
"""

from __future__ import annotations

import select
import sys

from broker.archive.archive import Archive, new_temporary_writer_name
from broker.archive.compaction import Compaction, CompactionRules
from broker.archive.expiry import Expiry, ExpiryRules
from broker.archive.manifest_journal import ManifestWriter
from broker.archive.writer import ArchiveWriter
from broker.log.records import LoggedEvent
from broker.transport.clock import wall_clock_ms
from tests.archive.events import covering, events

EVENTS = 900
FLUSH = 15


def made_by(origin: str) -> list[LoggedEvent]:
    """All events of an origin."""
    return events(range(1, EVENTS + 1), origin=origin)


def write(folder: str, origin: str) -> None:
    """Write all that is not covered yet."""
    archive = Archive.open(folder)
    writer = ArchiveWriter(archive, origin, wall_clock_ms)
    made = made_by(origin)
    while True:
        _, done = archive.state().covered_upto(origin, (1, 0))
        print(done, flush=True)
        if done == EVENTS:
            return
        flush = made[done : done + FLUSH]
        writer.write(covering(flush), flush, {})


def care(folder: str) -> None:
    """Merge, and delete what has had its grace, until stdin ends; then once more, over all."""
    ended = False
    while not ended:
        ended = bool(select.select([sys.stdin], [], [], 0)[0])
        archive = Archive.open(folder)
        ledger = ManifestWriter(archive.manifests, new_temporary_writer_name(), archive.wall_clock)
        rules = CompactionRules(min_files_in_open_hour=4, target_rows=200)
        Compaction(archive, ledger, rules).run()
        expired = Expiry(archive, ledger, ExpiryRules()).run()
        print(len(expired.deleted), flush=True)


if __name__ == "__main__":
    _, where, part = sys.argv
    if part == "care":
        care(where)
    else:
        write(where, part)
