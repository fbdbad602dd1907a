"""What it costs to archive events, and how large they are then."""

from __future__ import annotations

import gc
import itertools
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.archive_report import Cold, Measured, report
from benchmarks.harness.flights import flight_documents
from benchmarks.harness.lab import Lab
from benchmarks.harness.report import Report
from benchmarks.workloads.voevent_packets import NoData, packets, voevent_events
from broker.archive.archive import Archive
from broker.archive.compaction import Compaction, CompactionRules
from broker.archive.manifest_journal import ManifestWriter
from broker.archive.parquet import COMPRESSION_LEVEL
from broker.archive.table import batch_to_events
from broker.archive.verification import Verification
from broker.archive.writer import ArchiveWriter
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId, EventIdGenerator
from broker.log.records import LoggedEvent, encode_header
from broker.replay.garbage_collection import tune_garbage_collector
from broker.transport.clock import wall_clock_ms

DESCRIPTION: Final = "events archived as Parquet: processor time, size against raw XML and gzip"

FLIGHTS: Final = 1_000_000
VOEVENTS: Final = 100_000
#: Events of one flush: what 2,000 a second come to in five seconds.
FLUSH: Final = 10_000
#: Of zstd; the writer's own is among them. The others archive so much less.
LEVELS: Final = (1, COMPRESSION_LEVEL, 9)
SHARE_OF_OTHER_LEVELS: Final = 10
GZIP_LEVEL: Final = 6
_ORIGIN: Final = "0123456789abcdef"
#: The first event arrives then (2026-11-20T07:00Z), and one each ms: so hours end on the way.
_BEGIN_MS: Final = 1_795_158_000_000


def run(lab: Lab) -> Report:
    """Both workloads; the report says which were left out, and why."""
    with _as_in_the_archiver():
        return _run(lab)


@contextmanager
def _as_in_the_archiver() -> Iterator[None]:
    """Its process has a quiet garbage collector; other benchmarks are not to have it."""
    thresholds = gc.get_threshold()
    tune_garbage_collector()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _run(lab: Lab) -> Report:
    share = 100 if lab.quick else 1
    flights, voevents = (lab.events or each // share for each in (FLIGHTS, VOEVENTS))
    measured, cold = _measured(lab, "flights", flights, lambda: _flights(flights))
    missing: list[str] = []
    try:
        real = packets(300 if lab.quick else None)
    except NoData as reason:
        missing.append(f"VOEvents: {reason}")
    else:
        more, colder = _measured(lab, "VOEvents", voevents, lambda: _voevents(real, voevents))
        measured, cold = measured + more, cold + colder
    return report(measured, cold, missing)


def _measured(
    lab: Lab, workload: str, count: int, made: Callable[[], Iterator[bytes]]
) -> tuple[list[Measured], list[Cold]]:
    """One workload at all levels; at the writer's own all of it, and what can be done with that."""
    found: list[Measured] = []
    cold: list[Cold] = []
    for level in LEVELS:
        whole = level == COMPRESSION_LEVEL
        events = count if whole else max(1, count // SHARE_OF_OTHER_LEVELS)
        with lab.empty_folder() as folder:
            lab.say(f"{workload}, {events:,} events, zstd {level}")
            documents = itertools.islice(made(), events)
            found.append(_archived(folder, workload, level, documents))
            if whole:
                cold = _cold(lab, folder, workload)
    return found, cold


def _archived(folder: Path, workload: str, level: int, documents: Iterator[bytes]) -> Measured:
    writer = ArchiveWriter(Archive.open(str(folder)), "writer", wall_clock_ms, level=level)
    gzip = zlib.compressobj(GZIP_LEVEL)
    done = Measured(workload, level)
    while flush := list(itertools.islice(documents, FLUSH)):
        events = [_logged(done.events + i, each) for i, each in enumerate(flush, 1)]
        after, upto = done.events, done.events + len(flush)
        cpu, wall = time.process_time(), time.perf_counter()
        written = writer.write([(_ORIGIN, (1, after), (1, upto))], events, {})
        done.cpu += time.process_time() - cpu
        done.seconds += time.perf_counter() - wall
        done.events = upto
        done.raw += sum(map(len, flush))
        done.archived += written.bytes
        done.gzip += len(gzip.compress(b"".join(flush)))
    done.gzip += len(gzip.flush())
    return done


def _cold(lab: Lab, folder: Path, workload: str) -> list[Cold]:
    """What opening, reading, verifying and merging take; on files that the system has cached."""
    found: list[Cold] = []

    def timed(what: str, action: Callable[[], object]) -> None:
        lab.say(f"{workload}: {what}")
        archive = Archive.open(str(folder), create=False)
        files = archive.state().files
        events, size = sum(f.rows for f in files.values()), sum(f.bytes for f in files.values())
        began = time.perf_counter()
        action()
        found.append(Cold(workload, what, len(files), events, size, time.perf_counter() - began))

    def opened() -> Archive:
        return Archive.open(str(folder), create=False)

    def read() -> None:
        archive = opened()
        for file in archive.state().files.values():
            for batch in archive.read(file, checked=True):
                batch_to_events(batch)

    def merge() -> None:
        archive = opened()
        ledger = ManifestWriter(archive.manifests, "compactor", archive.wall_clock)
        # All hours are settled: the clock is years after the events.
        rules = CompactionRules(settled_ms=-(1 << 50))
        Compaction(archive, ledger, rules).run()

    timed("open and list", lambda: opened().state())
    timed("verify", lambda: Verification(opened()).run())
    timed("read all, as events", read)
    timed("merge the small files", merge)
    timed("open and list what is merged", lambda: opened().state())
    return found


def _flights(count: int) -> Iterator[bytes]:
    return flight_documents(EventIdGenerator("feed", 1), count)


def _voevents(real: list[bytes], count: int) -> Iterator[bytes]:
    """The packets again and again, each time with ids of their own."""
    return voevent_events(EventIdGenerator("feed", 1), list(itertools.islice(itertools.cycle(real), count)))


def _logged(number: int, document: bytes) -> LoggedEvent:
    """As the node's log has it. Its header is not what the document says, but as long."""
    header = Header(
        EventId("feed", _BEGIN_MS + number, number, 1),
        *("flights", "flight", "1.1", SecurityLevel.MED, Liveness.LIVE),
    )
    arrival = _BEGIN_MS + number
    record = encode_header(header)
    return LoggedEvent(1, number, arrival, SecurityLevel.MED.rank, record, document, _ORIGIN, 0)
