"""The event log on disk: one LMDB environment, synchronous, one writer (DESIGN 8).

Tables: `events` (serial -> chunk of events), `origins` (positions of each origin's chunks), `kept`
(replicas), `marks` (publisher -> de-duplication window), `durables` (client and name -> durable
subscription), `clients` (newest incarnations), `histories`, `moved` (changed order entries),
`meta`, and `copies` of all small values.

An open reader keeps freed pages from being used again, so readers end their transaction at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import lmdb

from broker.errors import BrokerError, LogCorrupt, LogUnavailable
from broker.event.flow import CarryingPatterns, FlowInterval, update_intervals
from broker.event.place import Mark, NamedHistory, merge_marks
from broker.log.archive_hold import ArchiveHold
from broker.log.chunk import decode_key, encode_key, split_into_chunks
from broker.log.chunk_repair import repair_chunk
from broker.log.chunk_table import NEVER_OLD
from broker.log.commit import Bounds, Commit, Retention
from broker.log.damage import Damage
from broker.log.file_reader import FileReader, publisher_key
from broker.log.file_size import FileSize
from broker.log.folder_lock import has_been_used, is_disk_full, lock_folder, mark_used, open_error
from broker.log.history import Adoption, HistoryChain, HistoryTable
from broker.log.known_flows import with_origin
from broker.log.logged_event import LoggedEvent
from broker.log.moved_entries import move_entries
from broker.log.own_key import RANDOM_NAMES, OwnKey
from broker.log.page_check import REPAIR_ADVICE, check_file
from broker.log.replica_table import ReplicaSpan
from broker.log.startup_repair import (
    StartupRepairs,
    append_lost_tail,
    check_format,
    read_epoch,
    read_origin,
    repair_tables,
)
from broker.log.stored_chunk import encode_stored_chunk
from broker.log.tables import MAX_TABLES, Tables
from broker.log.withheld_flows import WithheldFlows, update_withheld
from broker.transport.clock import wall_clock_ms

#: Most chunks that one commit deletes, so that it is never delayed for long.
MAX_TRIMMED = 2_000


class LogFile(FileReader):
    """An open log: one thread writes, any thread may read."""

    def __init__(
        self,
        folder: Path,
        retention: Retention,
        *,
        sync: bool = True,
        max_events_bytes: int = 0,
        wall_clock: Callable[[], int] = wall_clock_ms,
        own_key: OwnKey = RANDOM_NAMES,
    ) -> None:
        """`wall_clock` gives ms since 1970, for the name of a new log. `own_key` gives that name,
        and signs own events."""
        self._folder = folder
        self._retention = retention
        self._sync = sync
        self._wall_clock = wall_clock
        self._own_key = own_key
        self.signing_key = own_key.key
        self._map_size = max_events_bytes or retention.map_bytes
        self.archive_hold = ArchiveHold(retention.unarchived_bytes)
        # The writer holds it only while it opens again: no reader waits for the disk.
        self._guard = threading.RLock()
        self._arrival = 0
        self._oldest = (0, 0)
        """First serial of the oldest chunk, and arrival time of its newest event; (0, 0) if the
        table must be read."""
        self.startup_repairs = StartupRepairs()
        """Damage found when the log was opened."""
        self.origin = ""
        self.covered: dict[str, Mark] = {}
        """By origin: the mark up to which the log was complete when it was opened."""
        self.begins_after: Mapping[str, Mark] = {}
        """By origin with missing older events: the mark after which the log begins, as last
        committed."""
        self.replica_spans: Mapping[str, ReplicaSpan] = {}
        """Ranges of the replicas of other nodes' logs, as last committed."""
        self.history_chain = HistoryChain()
        self.start_mark: Mark = (0, 0)
        """The newest own place when the log was opened."""
        self.foreign_histories: Mapping[str, tuple[NamedHistory, ...]] = {}
        """Histories of other origins, as stored when the log was opened."""
        self.flow_intervals: Mapping[str, tuple[FlowInterval, ...]] = {}
        """Of the flows of all origins, as stored when the log was opened."""
        self.withheld = WithheldFlows()
        self.pending_adoption: Adoption | None = None
        """Previous name of this log, and the own mark after which the clone may lack events."""
        self._lock = lock_folder(folder)
        try:
            check_file(folder, was_used=has_been_used(self._lock))
            self._open()
            try:
                with self._writing() as txn:
                    self._recover(txn)
                mark_used(self._lock)
            except BrokerError:
                self._env.close()
                raise
        except BrokerError:
            os.close(self._lock)
            raise

    def _open(self) -> None:
        try:
            self._env = lmdb.open(
                str(self._folder),
                map_size=self._map_size,
                max_dbs=MAX_TABLES,
                max_readers=64,
                sync=self._sync,
                metasync=self._sync,
            )
            self._size = FileSize(self._folder)
            self._tables = Tables(self._env)
        except (lmdb.InvalidError, lmdb.VersionMismatchError, lmdb.CorruptedError) as error:
            reason = f"{self._folder} does not hold an event log: {error}; {REPAIR_ADVICE}"
            raise LogCorrupt(reason) from None
        except (OSError, lmdb.Error) as error:
            raise open_error(self._folder, error) from None

    def _recover(self, txn: lmdb.Transaction) -> None:
        """Begins a history: this folder may be an older copy."""
        tables, meta, histories = self._tables, self._tables.meta, self._tables.histories
        own_key = self._own_key
        if check_format(txn, tables, self._folder):
            meta.put(txn, b"origin", own_key.new_name(self._wall_clock()).encode())
        self.startup_repairs = repair_tables(txn, tables)
        self.origin = read_origin(txn, tables, self._folder)
        has_ended = histories.end_disowned(txn, self.origin)
        if not has_ended and own_key.needs_new_name(self.origin):
            histories.rename(txn, self.origin)
            has_ended = True
        if has_ended:
            self.origin = own_key.new_name(self._wall_clock())
            meta.put(txn, b"origin", self.origin.encode())
        self._signer = own_key.make_signer(self.origin)
        self.pending_adoption = histories.pending_adoption(txn)
        append_lost_tail(txn, tables, self.origin)
        previous = read_epoch(txn, tables, self.origin)
        meta.delete(txn, b"clean")
        first, last = self._first_and_last(txn)
        with tables.chunks.cursor(txn) as cursor:
            newest = tables.chunks.last_chunk(txn, cursor)
        if newest is not None:
            self._arrival = newest.arrival_at(last) % NEVER_OLD
        self.covered = tables.origins.covered(txn)
        self.begins_after = tables.origins.begins_after(txn)
        self.replica_spans = tables.replicas.spans(txn)
        _, known = self.covered.get(self.origin, (0, 0))
        self.start_mark = (previous, known)
        epoch, offset = histories.start_process(txn, previous, known, self._wall_clock())
        meta.put(txn, b"epoch", b"%d" % epoch)
        if offset > known:
            self.covered[self.origin] = (epoch, offset)
            tables.origins.set_covered(txn, self.origin, (epoch, offset))
        self.history_chain = histories.read_chain(txn)
        self.foreign_histories = histories.foreign_histories(txn)
        self.flow_intervals = histories.flow_intervals(txn)
        self.withheld = WithheldFlows(histories.withheld_intervals(txn))
        self._bounds = Bounds(epoch, first, last, self._event_bytes(txn), offset)

    def update_flows(self, carrying: CarryingPatterns, ordered: CarryingPatterns | None) -> None:
        """Begin the own flows of these patterns with this start, and end those of others.

        Those in `ordered` are withheld; None: without a network (`update_withheld`).
        """
        start, stored = (self._bounds.epoch, self._bounds.offset), self.withheld.intervals
        changed = update_intervals(self.origin, self.flow_intervals, carrying, start)
        withheld = self.withheld = update_withheld(
            self.origin, stored, carrying, ordered, start, self.covered
        )
        if changed or any(
            withheld.intervals[flow] != stored.get(flow) for flow in withheld.intervals
        ):
            with self._writing() as txn:
                for flow, intervals in changed.items():
                    self._tables.histories.put_flow(txn, flow, intervals)
                for flow, intervals in withheld.intervals.items():
                    self._tables.histories.put_withheld(txn, flow, intervals)
            self.flow_intervals = {**self.flow_intervals, **changed}

    def change_history(self, change: Callable[[HistoryTable, lmdb.Transaction], object]) -> None:
        with self._writing() as txn:
            change(self._tables.histories, txn)
            self.pending_adoption = self._tables.histories.pending_adoption(txn)

    def reopen(self) -> None:
        """Close and open again: LMDB refuses all further use after some write errors."""
        with self._guard:
            self._size.check()
            self._env.close()
            self._open()

    def close(self, epoch: int = 0) -> None:
        """Record a clean end, then close.

        `epoch` is the present one: failed commits may have given places in it, which must not be
        given again.
        """
        with self._guard:
            try:
                with self._writing() as txn:
                    newest = max(epoch, self._bounds.epoch)
                    self._tables.meta.put(txn, b"epoch", b"%d" % newest)
                    self._tables.meta.put(txn, b"clean", b"1")
            finally:
                self._env.close()
                os.close(self._lock)

    def crash(self) -> None:
        """Release the files without a clean end, to simulate a crash."""
        with self._guard:
            self._env.close()
            os.close(self._lock)

    @contextmanager
    def _writing(self) -> Iterator[lmdb.Transaction]:
        self._size.check()
        try:
            with self._env.begin(write=True, buffers=True) as txn:
                yield txn
        except Exception as error:
            # A failed transaction may have deleted the oldest chunk in vain.
            self._oldest = (0, 0)
            if isinstance(error, lmdb.MapFullError):
                raise LogUnavailable("the event log has reached its size limit") from None
            if isinstance(error, (OSError, lmdb.Error)):
                # LMDB reports a full disk as an input/output error.
                reason = "its disk is full" if is_disk_full(self._folder) else str(error)
                raise LogUnavailable(f"the event log can not be written: {reason}") from None
            raise

    def commit(self, commit: Commit, epoch: int, now_ms: int) -> Bounds:
        """Write all of `commit` durably, or nothing. Raises `LogUnavailable`."""
        events: Sequence[LoggedEvent] = commit.events
        if self._signer is not None:
            self._signer.sign_commit(events, self.withheld.ordered)
        if self.flow_intervals:
            events = with_origin(events, self.origin, self.withheld.ordered)
        with self._writing() as txn:
            tables = self._tables
            if epoch != self._bounds.epoch:
                tables.meta.put(txn, b"epoch", b"%d" % epoch)
                # Events with earlier epochs belong to the previous history.
                own = [each for each in events if each.origin == self.origin]
                earlier = [each.offset for each in own if each.epoch < epoch]
                offset = max([self._bounds.offset, *earlier])
                tables.histories.add_history(txn, self._bounds.epoch, epoch, offset)
            for origin, named in commit.histories.items():
                tables.histories.put_foreign(txn, origin, named)
            for flow, intervals in commit.flows.items():
                tables.histories.put_flow(txn, flow, intervals)
            tables.histories.put_statements(txn, commit.statements)
            for loss in commit.losses:
                tables.histories.add_loss(txn, loss)
            for chunk in split_into_chunks(events):
                key = encode_key(chunk[0].serial)
                if not txn.put(key, encode_stored_chunk(key, chunk), db=tables.events, append=True):
                    raise LogUnavailable("the event log is damaged: its last key is too high")
                tables.origins.add_chunk(txn, chunk)
            if commit.moved:
                move_entries(txn, tables, commit.moved)
            for origin, mark in commit.covered.items():
                tables.origins.set_covered(txn, origin, mark)
            for origin, mark in commit.begins_after.items():
                tables.origins.set_beginning(txn, origin, mark)
            for publisher, window in commit.marks:
                tables.marks.put(txn, publisher_key(publisher), window)
            for key, value in commit.durables:
                if value is None:
                    tables.durables.delete(txn, key)
                else:
                    tables.durables.put(txn, key, value)
            for client_id, newest in commit.clients:
                if newest is None:
                    tables.clients.delete(txn, client_id.encode())
                else:
                    tables.clients.put(txn, client_id.encode(), newest)
            kept = self.replica_spans
            if commit.replicas:
                kept = self._tables.replicas.add_batches(
                    txn, kept, commit.replicas, self._retention.max_bytes // 2, self.archive_hold
                )
            since, used = self._trim(txn, now_ms)
            if commit.begins_after:
                since = merge_marks(commit.begins_after, since)
            last = commit.events[-1].serial if commit.events else self._bounds.last
            first = self._oldest[0] or self._oldest_serial(txn, last)
            _, offset = commit.covered.get(self.origin, (0, self._bounds.offset))
            bounds = Bounds(epoch, first, last, used, offset)
            if epoch != self._bounds.epoch or commit.losses:
                self.history_chain = tables.histories.read_chain(txn)
        self.replica_spans = kept
        if since:
            self.begins_after = merge_marks(self.begins_after, since)
        self._bounds = bounds
        return bounds

    def _trim(self, txn: lmdb.Transaction, now_ms: int) -> tuple[dict[str, Mark], int]:
        """Apply retention. Return the marks after which origins begin then, and the bytes of the
        table of events."""
        oldest_arrival = now_ms - self._retention.max_age_ms
        used = self._event_bytes(txn)
        over = used - self._retention.max_bytes
        known, newest = self._oldest
        if over <= 0 and known and newest >= oldest_arrival:
            return {}, used
        since = self._delete_oldest(txn, oldest_arrival, over)
        return since, self._event_bytes(txn)

    def _delete_oldest(
        self, txn: lmdb.Transaction, oldest_arrival: int, over: int
    ) -> dict[str, Mark]:
        since: dict[str, Mark] = {}
        chunks = self._tables.chunks
        with chunks.cursor(txn) as cursor:
            if not cursor.first():
                return since
            for _ in range(MAX_TRIMMED):
                chunk = chunks.chunk_at(txn, cursor)
                last = chunk.last
                self._oldest = (chunk.first, chunk.arrival_at(last))
                # A chunk is deleted as a whole, by the age of its newest event.
                if over <= 0 and chunk.arrival_at(last) >= oldest_arrival:
                    return since
                if chunk.origin == self.origin and self.archive_hold.holds_events(
                    chunk.mark_at(chunk.first),
                    chunk.mark_at(last),
                    self._retention.max_bytes + over,
                ):
                    return since
                since.update(self._tables.origins.remove_chunk(txn, chunk))
                # Pages hold whole values: the next commit measures again.
                over -= len(cursor.value())
                self._oldest = (0, 0)
                if not cursor.delete() or not cursor.key():
                    # Otherwise the last serial would be given twice.
                    self._tables.meta.put(txn, b"last", encode_key(last))
                    return since
        return since

    def _oldest_serial(self, txn: lmdb.Transaction, last: int) -> int:
        with self._tables.chunks.cursor(txn) as cursor:
            return decode_key(cursor.key()) if cursor.first() else last + 1

    def drop_old(self, now_ms: int) -> int:
        """Drop windows and replicas beyond their maximum age. Return the number of windows."""
        dropped = 0
        limit = now_ms - self._retention.marks_age_ms
        oldest = now_ms - self._retention.max_age_ms
        with self._writing() as txn:
            marks = self._tables.marks
            for key, window in marks.items(txn):
                if window is not None and int.from_bytes(window[8:16], "big") < limit:
                    marks.delete(txn, key)
                    dropped += 1
            left = {
                o: self._tables.replicas.drop_older_chunks(txn, o, span, oldest)
                for o, span in self.replica_spans.items()
            }
        self.replica_spans = {origin: span for origin, span in left.items() if span is not None}
        return dropped

    def repair(self, damage: Damage, events: Sequence[LoggedEvent]) -> Damage | None:
        """Replace damaged events in one transaction; return the remaining damage, or None."""
        with self._writing() as txn:
            left = repair_chunk(txn, self._tables, damage, events)
        self._oldest = (0, 0)
        self._tables.chunks.clear_places()
        return left

    @property
    def bounds(self) -> Bounds:
        return self._bounds

    @property
    def last_arrival(self) -> int:
        """Arrival time of the newest event at the opening; 0 without one."""
        return self._arrival
