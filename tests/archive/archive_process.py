"""Processes on one archive: `python -m tests.archive.archive_process FOLDER PART`.

For an origin as PART its events are written from the end of its coverage up to `EVENTS`. For `care`
files are merged and deleted until stdin ends. Each flush or round prints a line.
"""

from __future__ import annotations

import select
import sys

from broker.archive.archive import Archive, new_temporary_writer_name
from broker.archive.compaction import Compaction, CompactionRules
from broker.archive.expiry import Expiry, ExpiryRules
from broker.archive.manifest_journal import ManifestWriter
from broker.archive.writer import ArchiveWriter
from broker.log.logged_event import LoggedEvent
from broker.transport.clock import wall_clock_ms
from tests.archive.events import covering, events

EVENTS = 900
FLUSH = 15


def events_of(origin: str) -> list[LoggedEvent]:
    return events(range(1, EVENTS + 1), origin=origin)


def write(folder: str, origin: str) -> None:
    archive = Archive.open(folder)
    writer = ArchiveWriter(archive, origin, wall_clock_ms)
    made = events_of(origin)
    while True:
        _, done = archive.state().covered_upto(origin, (1, 0))
        print(done, flush=True)
        if done == EVENTS:
            return
        flush = made[done : done + FLUSH]
        writer.write(covering(flush), flush, {})


def run_maintenance(folder: str) -> None:
    """Merge and expire until stdin ends, then once more."""
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
        run_maintenance(where)
    else:
        write(where, part)
