"""Archive of simulated nodes: real files, written and searched in virtual time."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

import attrs
from twisted.internet.defer import Deferred, succeed

from broker.archive.archive import Archive
from broker.archive.chunk_columns import ChunkColumns
from broker.archive.disk import Disk
from broker.archive.missing_range_age import MissingRangeAges
from broker.archiver.log_archiver import LogArchiver
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.reference import DtdReference
from broker.errors import ArchiveUnavailable, BrokerError
from broker.event.place import Mark
from broker.log.archive_reads import read_columns, read_moved
from broker.log.history import HistoryChain
from broker.log.log_file import LogFile
from broker.log.logged_event import LoggedEvent
from broker.log.replica_table import ReplicaSpan
from broker.recovery.archive_access import ArchiveAccess, ArchivedDurable, Coverage
from broker.replay.engine.contract import Report
from broker.replay.engine.local_engine import LocalEngine
from broker.replay.request import ReplayRequest
from broker.replay.spool import Spool
from broker.signatures.node_key import find_signer
from broker.testing.archive_maintenance import SimulatedMaintenance
from broker.testing.dying_disk import DyingDisk, ProcessDied
from broker.testing.node_process import NodeProcess
from broker.transport.clock import IClock

#: Few, so that much happens between two pages.
PAGE_EVENTS = 7


class SimulatedArchive:
    """One archive of several nodes, inside `folder`."""

    def __init__(self, folder: Path, wall_clock: Callable[[], int], every: float = 2.0) -> None:
        self.uri = str(folder / "archive")
        self.flush_interval = every
        """In seconds."""
        self.is_broken = False
        """If true, all reads and writes fail."""
        self._spools = Path(tempfile.mkdtemp(prefix="spools-", dir=folder))
        self._wall_clock = wall_clock
        self._catalogue = Catalogue.load(shipped_folder())
        self._archivers: dict[NodeProcess, _Archiver] = {}
        self.maintenance = SimulatedMaintenance(self.uri, wall_clock)
        self.requests: list[ReplayRequest] = []

    def open(self, disk: Disk | None = None) -> Archive:
        if self.is_broken:
            raise ArchiveUnavailable("the archive is broken")
        return Archive.open(self.uri, wall_clock=self._wall_clock, disk=disk)

    def create_access(self, process: NodeProcess) -> ArchiveAccess:
        archiver = self._archivers[process] = _Archiver(self, process)
        process.clock.callLater(self.flush_interval, archiver.flush_repeatedly)
        return ArchiveAccess(
            replays=_Replays(self, process.clock),
            get_coverage=archiver.get_coverage,
            find_durable=archiver.find_durable,
            find_dtd=archiver.dtd_text,
            flush_soon=lambda: process.clock.callLater(0.01, archiver.flush),
            max_lag=3 * self.flush_interval,
        )

    def kill_archiver(self, random: Random) -> bool:
        """Kill an archiver at a random step of its next flush, or at once if it takes none.

        Returns true if one was running.
        """
        alive = [each for each in self._archivers.values() if each.is_running]
        if not alive:
            return False
        random.choice(alive).end_after(random.randrange(12))
        return True

    def run_replay(self, request: ReplayRequest, archive: Archive) -> tuple[Spool, Report]:
        self.requests.append(request)
        if self.is_broken:
            raise ArchiveUnavailable("the archive is broken")
        folder = Path(tempfile.mkdtemp(dir=self._spools))
        engine = LocalEngine(archive, self._catalogue)
        (report,) = engine.run([request], folder, lambda done, of: None, lambda: False)
        return Spool(folder), report

    @property
    def wall_clock(self) -> Callable[[], int]:
        """Ms since 1970."""
        return self._wall_clock


class _Archiver:
    """Archiver of one node process; it ends with it."""

    def __init__(self, archive: SimulatedArchive, process: NodeProcess) -> None:
        self._archive = archive
        self._process = process
        self._clock = process.clock
        self._disk = DyingDisk()
        self._archiving: LogArchiver | None = None
        self._opened: Archive | None = None
        self._noticed = MissingRangeAges()
        self._is_down = False
        """True until the archiver process is restarted."""

    @property
    def is_running(self) -> bool:
        process = self._process
        return process.is_running and process.clock is self._clock and not self._is_down

    def end_after(self, steps: int) -> None:
        """End after so many disk steps."""
        self._disk.steps_left = steps

    def flush_repeatedly(self) -> None:
        self.flush()
        self._clock.callLater(self._archive.flush_interval, self.flush_repeatedly)

    def flush(self) -> None:
        if self._archive.is_broken or self._process.is_stopping or self._is_down:
            return
        try:
            if self._archiving is None:
                log, archive = LogView(self._process.log_file), self._open_archive()
                signer = find_signer(self._process.settings.node.data, log.origin)
                self._archiving = LogArchiver(
                    log, archive, self._collect_dtds, self._archive.wall_clock, signer
                )
            while self._archiving.flush(self._process.node.dead_origins()):
                pass
            own = self._process.node.event_log
            own.archive_hold.archived = self._archiving.reached.get(own.origin, (0, 0))
            own.archive_hold.archived_replicas = dict(self._archiving.reached)
        except BrokerError:
            # Retry later, as the real archiver does.
            return
        except ProcessDied:
            self._end_process()

    def _collect_dtds(
        self, references: Sequence[DtdReference], origin: str
    ) -> dict[DtdReference, bytes]:
        texts: dict[DtdReference, bytes] = {}
        for reference in references:
            found: list[bytes | None] = []
            self._process.node.types.find_text(reference, origin).addCallback(found.append)
            if found and found[0] is not None:
                texts[reference] = found[0]
        return texts

    def dtd_text(self, reference: DtdReference) -> Deferred[bytes | None]:
        try:
            return succeed(self._open_archive().read_dtd(reference))
        except BrokerError:
            return succeed(None)

    def get_coverage(self, after: Mapping[str, Mark]) -> Deferred[Coverage]:
        try:
            state = self._open_archive().state()
        except BrokerError:
            return succeed(Coverage())
        except ProcessDied:
            self._end_process()
            return succeed(Coverage())
        covered = state.covered
        found = {o: [i for i in covered.get(o, ()) if i[1] > mark] for o, mark in after.items()}
        others = frozenset(covered.keys() - after.keys())
        healing = self._noticed.healing_origins(state, self._archive.wall_clock())
        ends = {o: end for o, end in state.lost_ends.items() if end > after.get(o, end)}
        return succeed(Coverage(found, healing, others, ends, is_known=True))

    def find_durable(self, client_id: str, name: str) -> Deferred[ArchivedDurable | None]:
        try:
            found = self._open_archive().read_durables().get((client_id, name))
        except BrokerError:
            found = None
        except ProcessDied:
            self._end_process()
            found = None
        return succeed(None if found is None else ArchivedDurable(*found[:2]))

    def _open_archive(self) -> Archive:
        if self._archive.is_broken or self._is_down:
            raise ArchiveUnavailable("the archiver does not run")
        if self._opened is None:
            self._opened = self._archive.open(self._disk)
        return self._opened

    def _end_process(self) -> None:
        self._is_down, self._archiving, self._opened = True, None, None
        self._disk, self._noticed = DyingDisk(), MissingRangeAges()
        self._clock.callLater(1.0, self._restart)

    def _restart(self) -> None:
        self._is_down = False


@attrs.define
class LogView:
    """See `ExternalReader`, the view of another process."""

    _file: LogFile
    _change_count: int = 0

    @property
    def origin(self) -> str:
        return self._file.origin

    def own_extent(self) -> tuple[Mark, Mark]:
        bounds = self._file.bounds
        return self._file.begins_after.get(self.origin, (0, 0)), (bounds.epoch, bounds.offset)

    def history_chain(self) -> HistoryChain:
        return self._file.history_chain

    def read(self, after: Mark, max_events: int, max_bytes: int) -> list[ChunkColumns]:
        with self._file._reading() as txn:
            tables = self._file._tables
            return read_columns(txn, tables, self.origin, after, max_events, max_bytes)

    def read_moved(self, after: int) -> tuple[list[LoggedEvent], int]:
        with self._file._reading() as txn:
            return read_moved(txn, self._file._tables, self.origin, after)

    def replica_spans(self) -> Mapping[str, ReplicaSpan]:
        return self._file.replica_spans

    def read_replica(
        self, origin: str, after: Mark, max_events: int, max_bytes: int
    ) -> list[LoggedEvent]:
        return self._file.read_replica(origin, after, max_events, max_bytes)

    def durables(self) -> dict[tuple[str, str], bytes]:
        found = {}
        for key, stored in self._file.durables():
            client, _, name = key.partition(b"\0")
            found[client.decode(), name.decode()] = stored
        return found

    def change_number(self) -> int:
        self._change_count += 1
        return self._change_count


class _Replays:
    """See `broker.recovery.archive_access.Replays`."""

    def __init__(self, archive: SimulatedArchive, clock: IClock) -> None:
        self._archive = archive
        self._clock = clock
        self._opened: Archive | None = None

    def start_replay(self, request: ReplayRequest) -> _Replay:
        return _Replay(self, request, self._clock)

    def run(self, request: ReplayRequest) -> tuple[Spool, Report]:
        if self._opened is None:
            self._opened = self._archive.open()
        return self._archive.run_replay(request, self._opened)


class _Replay:
    """See `broker.recovery.archive_access.Replay`."""

    def __init__(self, replays: _Replays, request: ReplayRequest, clock: IClock) -> None:
        self._replays = replays
        self._request = request
        self._clock = clock
        self._pages: deque[list[LoggedEvent]] | None = None
        self._report = Report()
        self.scanned_rows = (0, 0)

    def next_events(self) -> Deferred[Sequence[LoggedEvent]]:
        more: Deferred[Sequence[LoggedEvent]] = Deferred()
        self._clock.callLater(0.02, self._answer, more)
        return more

    def _answer(self, more: Deferred[Sequence[LoggedEvent]]) -> None:
        if self._pages is None:
            try:
                spool, self._report = self._replays.run(self._request)
                self.scanned_rows = (self._report.scanned_rows, self._report.scanned_rows)
            except BrokerError as error:
                more.errback(error)
                return
            events = spool.read_events(0, 0, 1 << 30, 1 << 40) if self._report.events else []
            spool.delete()
            starts = range(0, len(events), PAGE_EVENTS)
            self._pages = deque(events[start : start + PAGE_EVENTS] for start in starts)
        more.callback(self._pages.popleft() if self._pages else [])

    def end_marks(self) -> Mapping[str, Mark]:
        return self._report.upto

    def missing_ranges(self) -> Sequence[tuple[str, Mark, Mark]]:
        return self._report.missing_ranges

    def cancel(self) -> None:
        self._pages = deque()
