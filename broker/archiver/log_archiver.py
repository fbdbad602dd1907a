"""Copies new events of a log into the archive: own events, and replicas of dead origins.

It continues where the archive's coverage ends, so the process may end at any moment.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from broker.archive.archive import Archive
from broker.archive.archive_state import ArchiveState
from broker.archive.chunk_columns import ChunkColumns, chunks_to_batch
from broker.archive.dtd_check import DtdCheck
from broker.archive.interval import Interval, difference
from broker.archive.manifest_entry import OriginDtdVariant
from broker.archive.table import events_to_batch
from broker.archive.writer import ArchiveWriter, WriteResult
from broker.dtd.reference import DtdReference
from broker.event.place import Mark
from broker.log.damage import DamageFound
from broker.log.delivered_entries import NotDelivered
from broker.log.history import HistoryChain
from broker.log.logged_event import LoggedEvent
from broker.log.replica_table import ReplicaSpan
from broker.signatures.batch_signer import BatchSigner

#: The rest follows at once in the next flush.
FLUSH_EVENTS = 50_000
FLUSH_BYTES = 32 << 20
#: Ms until the node is asked again for an unknown DTD.
RETRY_MS = 60_000

#: Returns the DTDs for events of an origin, without unknown ones.
FetchDtds: TypeAlias = Callable[[Sequence[DtdReference], str], Mapping[DtdReference, bytes]]
TextHashes: TypeAlias = dict[tuple[str, DtdReference], str]


#: (after, most events, most bytes).
ReadRange: TypeAlias = Callable[[Mark, int, int], pa.RecordBatch | None]


class ReadableLog(Protocol):
    """The used part of `broker.log.external_reader.ExternalReader`."""

    @property
    def origin(self) -> str: ...
    def own_extent(self) -> tuple[Mark, Mark]: ...
    def history_chain(self) -> HistoryChain: ...
    def read(self, after: Mark, max_events: int, max_bytes: int) -> list[ChunkColumns]: ...
    def replica_spans(self) -> Mapping[str, ReplicaSpan]: ...
    def read_replica(
        self, origin: str, after: Mark, max_events: int, max_bytes: int
    ) -> list[LoggedEvent]: ...
    def read_moved(self, after: int) -> tuple[list[LoggedEvent], int]: ...
    def durables(self) -> dict[tuple[str, str], bytes]: ...
    def change_number(self) -> int: ...


@attrs.define
class ArchiverCounters:
    events: int = 0
    files: int = 0
    bytes: int = 0
    flushes: int = 0
    lost: int = 0
    """Places that retention removed before they were archived."""
    damaged: int = 0
    """Flushes that skipped damage in the log."""
    moved: int = 0
    """Events that were archived again, with another place in the order of their group."""


class LogArchiver:
    """All methods block, and raise `ArchiveUnavailable` or `LogUnavailable`."""

    def __init__(
        self,
        log: ReadableLog,
        archive: Archive,
        fetch_dtds: FetchDtds,
        wall_clock: Callable[[], int],
        signer: BatchSigner | None = None,
    ) -> None:
        """`signer` signs the log's own events that are not signed yet."""
        self._log = log
        self._signer = signer
        self._archive = archive
        self._writer = ArchiveWriter(archive, log.origin, wall_clock)
        self._fetch_dtds = fetch_dtds
        self._wall_clock = wall_clock
        self._archived_hashes: TextHashes = {}
        self._lost_texts = DtdCheck(archive)
        self._missing_dtds: set[tuple[str, DtdReference]] | None = None
        self._compared_state: ArchiveState | None = None
        self._asked_at = 0
        self._stored_durables: dict[tuple[str, str], bytes] | None = None
        self._durables_change = -1
        self._moved_change = 0
        self.counters = ArchiverCounters()
        self.reached: dict[str, Mark] = {}

    def flush(self, dead: Collection[str] = ()) -> bool:
        """Archive new events, also of `dead` origins. Return whether more are left."""
        more = self._flush_own()
        self._flush_moved()
        self._record_replica_marks(dead)
        for origin in dead:
            more = self._flush_replica(origin) or more
        self._put_durables()
        self._put_missing_dtds()
        self._put_uses()
        self._writer.report_observed_coverage()
        return more

    def _record_replica_marks(self, dead: Collection[str]) -> None:
        """Record how far other nodes have archived the replicas here, which stay until then."""
        state = self._archive.state()
        for origin, span in self._log.replica_spans().items():
            if origin not in dead:
                since = max(span.after, state.forgotten_upto(origin))
                self.reached[origin] = state.covered_upto(origin, since)

    def _flush_own(self) -> bool:
        log = self._log
        since, durable = log.own_extent()

        def read(after: Mark, max_events: int, max_bytes: int) -> pa.RecordBatch | None:
            chunks = log.read(after, max_events, max_bytes)
            return chunks_to_batch(chunks, self._signer) if chunks else None

        return self._flush_span(log.origin, since, durable, read, lambda: log.own_extent()[0])

    def _flush_moved(self) -> None:
        """Archive own events again whose places in the order of their group have changed."""
        origin, upto = self._log.origin, self.reached.get(self._log.origin, (0, 0))
        events, change = self._log.read_moved(self._moved_change)
        forgotten = self._archive.state().forgotten_upto(origin) if events else upto
        archived = [each for each in events if forgotten < each.mark <= upto]
        if archived:
            self._write_with(origin, [], events_to_batch(archived, self._signer), {})
            self.counters.moved += len(archived)
        self._moved_change = change

    def _flush_replica(self, origin: str) -> bool:
        log = self._log
        span = log.replica_spans().get(origin)
        if span is None:
            return False

        def begins() -> Mark:
            now = log.replica_spans().get(origin)
            return span.upto if now is None else now.after

        def read(after: Mark, max_events: int, max_bytes: int) -> pa.RecordBatch | None:
            events = log.read_replica(origin, after, max_events, max_bytes)
            return events_to_batch(events) if events is not None else None

        return self._flush_span(origin, span.after, span.upto, read, begins)

    def _flush_span(
        self, origin: str, since: Mark, durable: Mark, read: ReadRange, begins: Callable[[], Mark]
    ) -> bool:
        """Archive the missing part of (since, durable]. Return whether more is left."""
        after, end = self._next_missing_range(origin, since)
        if durable <= after:
            return False
        try:
            events = read(after, FLUSH_EVENTS, FLUSH_BYTES)
        except DamageFound as found:
            # The archive has a missing range here until the log is repaired.
            self.counters.damaged += 1
            upto = max(found.damage.upto, since)
            lost = self.counters.lost
            more = upto > since and self._flush_span(origin, upto, durable, read, begins)
            # The damage is not a loss by retention.
            self.counters.lost = lost
            return more
        except NotDelivered:
            return False
        upto = _mark_of_row(events, -1) if events is not None else durable
        if end is not None and end < upto:
            events, upto = _events_up_to(events, end), end
        # Retention may have removed events meanwhile.
        covered = max(after, begins())
        if covered > after:
            self.counters.lost += (
                _mark_of_row(events, 0)[1] - 1 if events is not None else upto[1]
            ) - after[1]
        covered = min(covered, upto)
        if events is None and not difference(
            [(covered, upto)], self._lost_places(origin, covered, None)
        ):
            self.reached[origin] = upto
            return upto < durable and self._flush_span(origin, upto, durable, read, begins)
        self._write(origin, covered, upto, events)
        return upto < durable

    def _next_missing_range(self, origin: str, since: Mark) -> tuple[Mark, Mark | None]:
        """Return the end of the archived events, and the start of the next ones, if any."""
        state = self._archive.state()
        if self._writer.manifest_writer.repair(state):
            state = self._archive.state()
        before = self.reached.get(origin)
        # Expired events must not return from a log that still has them.
        after = state.covered_upto(origin, max(since, state.forgotten_upto(origin)))
        if origin == self._log.origin:
            # Coverage of one branch says nothing of another.
            chain = self._log.history_chain()
            while (goes_on := chain.next_after(after)) != after:
                after = state.covered_upto(origin, goes_on)
        self.reached[origin] = after
        if before is not None and before < since:
            # Removed events never come. They must not stop the archiver.
            self.counters.lost += max(0, since[1] - state.covered_upto(origin, before)[1])
        return after, state.next_covered(origin, after)

    def _write(self, origin: str, after: Mark, upto: Mark, events: pa.RecordBatch | None) -> None:
        dtds = self._fetch_new_dtds(origin, events) if events is not None else {}
        # A recovery across a loss reports a gap.
        empty = self._lost_places(origin, after, events)
        covers = [(origin, *each) for each in difference([(after, upto)], empty)]
        written = self._write_with(origin, covers, [] if events is None else events, dtds)
        self.reached[origin] = upto
        figures = self.counters
        figures.events += written.rows
        figures.files += len(written.files)
        figures.bytes += written.bytes
        figures.flushes += 1

    def _lost_places(
        self, origin: str, after: Mark, events: pa.RecordBatch | None
    ) -> list[Interval]:
        """Return places behind `after` that stand for losses of the origin.

        For another origin these are the offsets that its events leave out.
        """
        if origin == self._log.origin:
            return list(self._log.history_chain().empty_ranges)
        if events is None:
            return []
        epochs, offsets = (events.column(name).to_numpy() for name in ("epoch", "offset"))
        before = np.concatenate(([after[1]], offsets[:-1]))
        found: list[Interval] = []
        for row in np.flatnonzero(offsets > before + 1).tolist():
            first = _mark_of_row(events, row - 1) if row else after
            found.append((first, (int(epochs[row]), int(offsets[row]) - 1)))
        return found

    def _fetch_new_dtds(self, origin: str, events: pa.RecordBatch) -> Mapping[DtdReference, bytes]:
        kinds = pa.table(events.select(["type", "version"])).group_by(["type", "version"])
        named = {DtdReference(*each.values()) for each in kinds.aggregate([]).to_pylist()}
        new = sorted(each for each in named if (origin, each) not in self._archived_hashes)
        texts = self._fetch_dtds(new, origin) if new else {}
        if self._missing_dtds is not None:
            self._missing_dtds |= {(origin, each) for each in new if each not in texts}
        return texts

    def _write_with(
        self,
        origin: str,
        covers: Sequence[tuple[str, Mark, Mark]],
        events: pa.RecordBatch | Sequence[LoggedEvent],
        dtds: Mapping[DtdReference, bytes],
    ) -> WriteResult:
        hashes = {(origin, r): hashlib.sha256(text).hexdigest() for r, text in dtds.items()}
        uses = self._unknown_uses(hashes, self._archive.state()) if hashes else set()
        written = self._writer.write(covers, events, dtds, uses)
        self._archived_hashes |= hashes
        return written

    def _unknown_uses(self, hashes: TextHashes, state: ArchiveState) -> set[OriginDtdVariant]:
        """Return unregistered uses of DTDs that differ from the registered one."""
        found = set()
        for (origin, reference), content_hash in hashes.items():
            counts = state.dtds.get(reference)
            if counts is not None and counts.sha256 != content_hash:
                own = DtdReference(reference.type, reference.version, content_hash)
                found.add(OriginDtdVariant(origin, own))
        return found - state.manifest.uses

    def _put_uses(self) -> None:
        """Another node may have archived its DTD under the name just now."""
        state = self._archive.state() if self._archived_hashes else None
        if state is not None and state is not self._compared_state:
            self._compared_state = state
            if uses := self._unknown_uses(self._archived_hashes, state):
                self._writer.write([], [], {}, uses)

    def _put_missing_dtds(self) -> None:
        """Archive DTDs that were unknown or lost."""
        now = self._wall_clock()
        if self._missing_dtds is None:
            state = self._archive.state()
            self._missing_dtds = {
                (origin, reference)
                for file in state.files.values()
                for reference in itertools.starmap(DtdReference, file.types)
                if reference not in state.dtds
                for origin in file.spans
            }
        elif abs(now - self._asked_at) < RETRY_MS:
            return
        self._asked_at = now
        self._missing_dtds -= self._archived_hashes.keys()
        for origin, missing in itertools.groupby(sorted(self._missing_dtds), lambda each: each[0]):
            texts = self._fetch_dtds([reference for _, reference in missing], origin)
            if texts:
                self._write_with(origin, [], [], texts)
        self._missing_dtds -= self._archived_hashes.keys()
        self._restore_lost_dtds()

    def _restore_lost_dtds(self) -> None:
        lost = self._lost_texts.find_damaged()
        uses = self._archive.state().manifest.uses if lost else ()
        for text in lost:
            users = {use.origin for use in uses if use.text.variant == text.sha256}
            for origin in (self._log.origin, *sorted(users)):
                self._writer.restore_dtds([text], self._fetch_dtds([text.reference], origin))

    def _put_durables(self) -> None:
        change = self._log.change_number()
        if change == self._durables_change:
            return
        before = self._previous_durables()
        now = self._log.durables()
        changes: list[tuple[str, str, bytes | None]] = [
            (*key, stored) for key, stored in now.items() if before.get(key) != stored
        ]
        changes += [(*key, None) for key in before.keys() - now.keys()]
        self._writer.put_durables(changes)
        self._stored_durables, self._durables_change = now, change

    def _previous_durables(self) -> dict[tuple[str, str], bytes]:
        if self._stored_durables is None:
            # Another node's record may be newer. An unchanged one must not replace it.
            self._stored_durables = dict(self._archive.read_durables_of(self._log.origin))
        return self._stored_durables


def _events_up_to(events: pa.RecordBatch | None, end: Mark) -> pa.RecordBatch | None:
    if events is None:
        return None
    epoch, offset = (events.column(name).to_numpy() for name in ("epoch", "offset"))
    count = int(np.count_nonzero((epoch < end[0]) | ((epoch == end[0]) & (offset <= end[1]))))
    return events.slice(0, count) if count else None


def _mark_of_row(events: pa.RecordBatch, row: int) -> Mark:
    return events.column("epoch")[row].as_py(), events.column("offset")[row].as_py()
