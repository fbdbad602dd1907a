"""Cost of archiving and recovering events with signatures, and their size in the archive."""

from __future__ import annotations

import gc
import itertools
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.archive_report import RECOVERY, SIGNED, Cold, Measured, report
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.flights import flight_documents
from benchmarks.harness.report import Report
from benchmarks.workloads.signed_events import EventSigner, check_events
from benchmarks.workloads.voevent_packets import NoData, load_packets, voevent_events
from broker.archive.archive import Archive
from broker.archive.compaction import Compaction, CompactionRules
from broker.archive.manifest_journal import ManifestWriter
from broker.archive.parquet import COMPRESSION_LEVEL
from broker.archive.table import batch_to_events
from broker.archive.verification import Verification
from broker.archive.writer import ArchiveWriter
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId, EventIdGenerator
from broker.log.logged_event import LoggedEvent, encode_header
from broker.recovery.messages import unpack_events
from broker.replay.engine.local_engine import LocalEngine
from broker.replay.garbage_collection import tune_garbage_collector
from broker.replay.request import ReplayRequest
from broker.replay.spool import Spool
from broker.transport.clock import wall_clock_ms

DESCRIPTION: Final = (
    "events signed, archived as Parquet and recovered: processor time, size against XML and gzip"
)

FLIGHTS: Final = 1_000_000
VOEVENTS: Final = 100_000
#: 2,000 events a second for five seconds.
FLUSH: Final = 10_000
#: Of zstd; all but the writer's own archive a tenth.
LEVELS: Final = (1, COMPRESSION_LEVEL, 9)
SHARE_OF_OTHER_LEVELS: Final = 10
GZIP_LEVEL: Final = 6
_ORIGIN: Final = "0123456789abcdef"
#: Of a page in recovery.
_PAGE_EVENTS: Final = 512
_PAGE_BYTES: Final = 256 << 10
#: Arrival of the first event (2026-11-20T07:00Z); one follows each ms, across hours.
_BEGIN_MS: Final = 1_795_158_000_000


def run(context: BenchmarkContext) -> Report:
    with _archiver_garbage_collector():
        return _run(context)


@contextmanager
def _archiver_garbage_collector() -> Iterator[None]:
    """Use the settings of the archiver's process."""
    thresholds = gc.get_threshold()
    tune_garbage_collector()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _run(context: BenchmarkContext) -> Report:
    share = 100 if context.quick else 1
    flights, voevents = (context.events or each // share for each in (FLIGHTS, VOEVENTS))
    measured, cold = _measure_workload(context, "flights", flights, lambda: _flights(flights))
    missing: list[str] = []
    try:
        real = load_packets(300 if context.quick else None)
    except NoData as reason:
        missing.append(f"VOEvents: {reason}")
    else:
        more, colder = _measure_workload(
            context, "VOEvents", voevents, lambda: _voevents(real, voevents)
        )
        measured, cold = measured + more, cold + colder
    return report(measured, cold, missing)


def _measure_workload(
    context: BenchmarkContext, workload: str, count: int, made: Callable[[], Iterator[bytes]]
) -> tuple[list[Measured], list[Cold]]:
    """Measure all levels; the writer's own level with all events, and with reading.

    Then measure signed events.
    """
    found: list[Measured] = []
    cold: list[Cold] = []
    for level in LEVELS:
        whole = level == COMPRESSION_LEVEL
        events = count if whole else max(1, count // SHARE_OF_OTHER_LEVELS)
        with context.empty_folder() as folder:
            context.report_progress(f"{workload}, {events:,} events, zstd {level}")
            documents = itertools.islice(made(), events)
            found.append(_measure_writing(folder, workload, level, documents))
            if whole:
                cold = _measure_opening(context, folder, workload)
    with context.empty_folder() as folder:
        signed = f"{workload}, {SIGNED}"
        context.report_progress(f"{signed}, {count:,} events")
        found.append(_measure_writing(folder, signed, COMPRESSION_LEVEL, made(), EventSigner()))
        cold.append(_measure_recovery(context, folder, signed))
    return found, cold


def _measure_writing(
    folder: Path,
    workload: str,
    level: int,
    documents: Iterator[bytes],
    signer: EventSigner | None = None,
) -> Measured:
    origin = _ORIGIN if signer is None else signer.origin
    writer = ArchiveWriter(Archive.open(str(folder)), "writer", wall_clock_ms, level=level)
    gzip = zlib.compressobj(GZIP_LEVEL)
    done = Measured(workload, level)
    while flush := list(itertools.islice(documents, FLUSH)):
        events = [
            _make_logged_event(origin, done.events + i, each) for i, each in enumerate(flush, 1)
        ]
        after, upto = done.events, done.events + len(flush)
        cpu, wall = time.process_time(), time.perf_counter()
        rows = events if signer is None else signer.make_rows(events)
        written = writer.write([(origin, (1, after), (1, upto))], rows, {})
        done.cpu += time.process_time() - cpu
        done.seconds += time.perf_counter() - wall
        done.events = upto
        done.raw += sum(map(len, flush))
        done.archived += written.bytes
        done.gzip += len(gzip.compress(b"".join(flush)))
    done.gzip += len(gzip.flush())
    return done


def _measure_opening(context: BenchmarkContext, folder: Path, workload: str) -> list[Cold]:
    found: list[Cold] = []

    def timed(what: str, action: Callable[[], object]) -> None:
        found.append(_time(context, folder, workload, what, action))

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
        # The clock is years after the events.
        rules = CompactionRules(settled_ms=-(1 << 50))
        Compaction(archive, ledger, rules).run()

    timed("open and list", lambda: opened().state())
    timed("verify", lambda: Verification(opened()).run())
    timed("read all, as events", read)
    timed("merge the small files", merge)
    timed("open and list what is merged", lambda: opened().state())
    return found


def _time(
    context: BenchmarkContext,
    folder: Path,
    workload: str,
    what: str,
    action: Callable[[], object],
) -> Cold:
    context.report_progress(f"{workload}: {what}")
    files = Archive.open(str(folder), create=False).state().files.values()
    events, size = sum(file.rows for file in files), sum(file.bytes for file in files)
    cpu, began = time.process_time(), time.perf_counter()
    action()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return Cold(workload, what, len(files), events, size, seconds, cpu)


def _measure_recovery(context: BenchmarkContext, folder: Path, workload: str) -> Cold:
    with context.empty_folder() as spooled:
        archive = Archive.open(str(folder), create=False)
        return _time(context, folder, workload, RECOVERY, lambda: _recover_all(archive, spooled))


def _recover_all(archive: Archive, folder: Path) -> None:
    """Recover all events for one subscription, with the checks of the node."""
    engine = LocalEngine(archive, Catalogue.load(shipped_folder()))
    request = ReplayRequest(">", "true()")
    (report,) = engine.run([request], folder, lambda done, of: None, lambda: False)
    if report.events != sum(file.rows for file in archive.state().files.values()):
        raise BenchmarkFailed(f"{report.events} events were recovered")
    spool, first = Spool(folder), 0
    while first < report.events:
        chunks, count = spool.read_page(0, first, _PAGE_EVENTS, _PAGE_BYTES)
        check_events(unpack_events(chunks))
        first += count


def _flights(count: int) -> Iterator[bytes]:
    return flight_documents(EventIdGenerator("feed", 1), count)


def _voevents(real: list[bytes], count: int) -> Iterator[bytes]:
    """New ids each time."""
    return voevent_events(
        EventIdGenerator("feed", 1), list(itertools.islice(itertools.cycle(real), count))
    )


def _make_logged_event(origin: str, number: int, document: bytes) -> LoggedEvent:
    """Return an event whose header differs from the document's, with equal length."""
    header = Header(
        EventId("feed", _BEGIN_MS + number, number, 1),
        *("flights", "flight", "1.1", SecurityLevel.MED, Liveness.LIVE),
    )
    arrival = _BEGIN_MS + number
    record = encode_header(header)
    return LoggedEvent(1, number, arrival, SecurityLevel.MED.rank, record, document, origin, 0)
