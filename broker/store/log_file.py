"""The event log on disk: one LMDB environment, synchronous, one writer (DESIGN 8).

Six tables: `events` (serial -> chunk of events), `origins` (where each origin's events lie),
`marks` (publisher -> de-duplication window), `durables` (client and name -> durable subscription),
`clients` (newest incarnations), `meta`.
Everything that one commit brings is one transaction, so an event never lies here without its mark.

Readers copy and end their transaction at once: a reader held open would keep freed pages from
being used again. So another process may read the same file while it stays bounded.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import lmdb

from broker.channel.clock import wall_clock_ms
from broker.errors import BrokerError, LogCorrupt, LogUnavailable
from broker.event.origin import new_origin
from broker.event.place import Mark
from broker.store.chunks import Chunk, chunks_of, decode_key, encode_chunk, encode_key, page
from broker.store.claim import claim_folder, not_opened
from broker.store.commit import Bounds, Commit, Retention
from broker.store.deduplication import Publisher
from broker.store.histories import Chain, Histories
from broker.store.kept import Kept, KeptSpan
from broker.store.origins import Origins
from broker.store.records import LoggedEvent
from broker.store.table_size import table_bytes
from broker.store.unarchived import UnarchivedHold

FORMAT = b"xmlbroker-log-3"
#: Most chunks that one commit deletes, so that catching up with retention never stalls it.
TRIM_AT_MOST = 2_000
_MIB = 1 << 20


class LogFile:
    """An open log. One thread writes (`commit`, `forget_old`, `reopen`, `close`); any may read."""

    def __init__(
        self,
        folder: Path,
        retention: Retention,
        *,
        sync: bool = True,
        max_events_bytes: int = 0,
        wall_clock: Callable[[], int] = wall_clock_ms,
    ) -> None:
        """`wall_clock` gives ms since 1970, for the name of a log that begins."""
        self._folder = folder
        self._retention = retention
        self._sync = sync
        self._wall_clock = wall_clock
        # Room beyond what is kept: pages freed by one transaction are used from the next but
        # one on, and the other tables have to fit in too.
        largest = max(retention.max_bytes, retention.unarchived_bytes)
        self._map_size = max_events_bytes or largest * 2 + 256 * _MIB
        self.hold = UnarchivedHold(retention.unarchived_bytes)
        # Held by readers, and by the writer only while it closes and opens again: a reader never
        # waits for a commit to reach the disk.
        self._guard = threading.RLock()
        self._arrival = 0
        self.origin = ""
        self.covered: dict[str, Mark] = {}
        """Up to where the log had all that it wants of each origin, when it was opened."""
        self.since: Mapping[str, Mark] = {}
        """Behind which mark it begins, of origins of which it has not all: as committed last."""
        self.kept: Mapping[str, KeptSpan] = {}
        """What is kept for other nodes, beside the log: as committed last."""
        self.chain = Chain()
        self.adopting: tuple[str, Mark] | None = None
        """The name that this log had, and behind which of its places a clone may lack events."""
        self._claim = claim_folder(folder)
        try:
            self._open()
            try:
                with self._writing() as txn:
                    self._recover(txn)
            except BrokerError:
                self._env.close()
                raise
        except BrokerError:
            os.close(self._claim)
            raise

    # ------------------------------------------------------------------ opening

    def _open(self) -> None:
        try:
            self._env = lmdb.open(
                str(self._folder),
                map_size=self._map_size,
                max_dbs=16,
                max_readers=64,
                sync=self._sync,
                metasync=self._sync,
            )
            self._events = self._env.open_db(b"events")
            self._marks = self._env.open_db(b"marks")
            self._durables = self._env.open_db(b"durables")
            self._clients = self._env.open_db(b"clients")
            self._meta = self._env.open_db(b"meta")
            self._origins = Origins(self._env.open_db(b"origins"), self._events)
            self._kept = Kept(self._env.open_db(b"kept"))
            self._histories = Histories(self._env.open_db(b"histories"))
        except (lmdb.InvalidError, lmdb.VersionMismatchError, lmdb.CorruptedError) as error:
            raise LogCorrupt(f"{self._folder} does not hold an event log: {error}") from None
        except (OSError, lmdb.Error) as error:
            raise not_opened(self._folder, error) from None

    def _recover(self, txn: lmdb.Transaction) -> None:
        """Read where the log stands, and begin a history: this folder may be an older copy."""
        kind = txn.get(b"format", db=self._meta)
        if kind is None:
            txn.put(b"format", FORMAT, db=self._meta)
            txn.put(b"origin", new_origin(self._wall_clock()).encode(), db=self._meta)
        elif bytes(kind) != FORMAT:
            raise LogCorrupt(
                f"{self._folder} holds a log of format {bytes(kind)!r}, not {FORMAT!r}"
            )
        self.origin = bytes(txn.get(b"origin", b"", db=self._meta)).decode()
        if self._histories.leave(txn, self.origin):
            self.origin = new_origin(self._wall_clock())
            txn.put(b"origin", self.origin.encode(), db=self._meta)
        self.adopting = self._histories.adopting(txn)
        previous = int(bytes(txn.get(b"epoch", default=b"0", db=self._meta)))
        txn.pop(b"clean", db=self._meta)
        first, last = self._ends(txn)
        with txn.cursor(db=self._events) as cursor:
            newest = Chunk.last_of(cursor)
        if newest is not None:
            self._arrival = newest.arrival(last)
        self.covered = self._origins.covered(txn)
        self.since = self._origins.since(txn)
        self.kept = self._kept.spans(txn)
        _, known = self.covered.get(self.origin, (0, 0))
        epoch, offset = self._histories.start(txn, previous, known, self._wall_clock())
        txn.put(b"epoch", b"%d" % epoch, db=self._meta)
        if offset > known:
            self.covered[self.origin] = (epoch, offset)
            self._origins.cover(txn, self.origin, (epoch, offset))
        self.chain = self._histories.chain(txn)
        self._bounds = Bounds(epoch, first, last, self._used(txn), offset)

    def change_histories(self, change: Callable[[Histories, lmdb.Transaction], object]) -> None:
        """Write a change to what is recorded of this log's histories."""
        with self._writing() as txn:
            change(self._histories, txn)
            self.adopting = self._histories.adopting(txn)

    def reopen(self) -> None:
        """Close and open again: LMDB refuses all further use after some write errors."""
        with self._guard:
            self._env.close()
            self._open()

    def close(self, epoch: int = 0) -> None:
        """Note a clean end, then close.

        `epoch` is the present one, where it may be later than that of the last commit: failed
        commits have given places, and none may be given again.
        """
        with self._guard:
            try:
                with self._writing() as txn:
                    txn.put(b"epoch", b"%d" % max(epoch, self._bounds.epoch), db=self._meta)
                    txn.put(b"clean", b"1", db=self._meta)
            finally:
                self._env.close()
                os.close(self._claim)

    def crash(self) -> None:
        """Let go of the files and note nothing, as the end of the process would."""
        with self._guard:
            self._env.close()
            os.close(self._claim)

    @contextmanager
    def _writing(self) -> Iterator[lmdb.Transaction]:
        try:
            with self._env.begin(write=True, buffers=True) as txn:
                yield txn
        except lmdb.MapFullError:
            raise LogUnavailable("the event log has reached its size limit") from None
        except (OSError, lmdb.Error) as error:
            # LMDB calls a write that did not fit an input/output error.
            reason = "its disk is full" if self._disk_is_full() else str(error)
            raise LogUnavailable(f"the event log can not be written: {reason}") from None

    def _reading(self) -> lmdb.Transaction:
        return self._env.begin(buffers=True)

    def _disk_is_full(self) -> bool:
        try:
            return shutil.disk_usage(self._folder).free < _MIB
        except OSError:
            return False

    # ------------------------------------------------------------------ writing

    def commit(self, commit: Commit, epoch: int, now_ms: int) -> Bounds:
        """Write everything of `commit` durably, or nothing; then trim what retention allows.

        The events carry their places already. Raises `LogUnavailable`.
        """
        with self._writing() as txn:
            if epoch != self._bounds.epoch:
                txn.put(b"epoch", b"%d" % epoch, db=self._meta)
                self._histories.begin(txn, self._bounds.epoch, epoch, self._bounds.offset)
            events = commit.events
            self._histories.extend(txn, self.origin, events)
            for loss in commit.losses:
                self._histories.add_loss(txn, loss)
            for chunk in chunks_of(events):
                key = encode_key(chunk[0].serial)
                txn.put(key, encode_chunk(chunk), db=self._events, append=True)
                self._origins.add(txn, chunk)
            for origin, mark in commit.covered.items():
                self._origins.cover(txn, origin, mark)
            for origin, mark in commit.since.items():
                self._origins.begin(txn, origin, mark)
            for publisher, window in commit.marks:
                txn.put(_publisher_key(publisher), window, db=self._marks)
            for key, value in commit.durables:
                if value is None:
                    txn.delete(key, db=self._durables)
                else:
                    txn.put(key, value, db=self._durables)
            for client_id, newest in commit.clients:
                txn.put(client_id.encode(), newest, db=self._clients)
            kept = self.kept
            if commit.keeping:
                kept = self._kept.keep(txn, kept, commit.keeping, self._retention.max_bytes // 2)
            since = _further(commit.since, self._trim(txn, now_ms))
            first, last = self._ends(txn)
            _, offset = commit.covered.get(self.origin, (0, self._bounds.offset))
            bounds = Bounds(epoch, first, last, self._used(txn), offset)
            if epoch != self._bounds.epoch or commit.losses:
                self.chain = self._histories.chain(txn)
        self.kept = kept
        if since:
            self.since = _further(self.since, since)
        self._bounds = bounds
        return bounds

    def _trim(self, txn: lmdb.Transaction, now_ms: int) -> dict[str, Mark]:
        """Delete what is too old or too much; behind which mark that leaves the origins."""
        since: dict[str, Mark] = {}
        oldest_arrival = now_ms - self._retention.max_age_ms
        over = self._used(txn) - self._retention.max_bytes
        with txn.cursor(db=self._events) as cursor:
            if not cursor.first():
                return since
            for _ in range(TRIM_AT_MOST):
                chunk = Chunk.under(cursor)
                last = chunk.last
                # It goes as a whole, with its newest event.
                if over <= 0 and chunk.arrival(last) >= oldest_arrival:
                    return since
                if chunk.origin == self.origin and self.hold.keeps(
                    chunk.mark(chunk.first), chunk.mark(last), self._retention.max_bytes + over
                ):
                    return since
                origin, behind = self._origins.remove(txn, chunk)
                since[origin] = behind
                # Pages hold whole values, so the true saving is a little larger: the next
                # commit measures again.
                over -= len(cursor.value())
                if not cursor.delete() or not cursor.key():
                    # The last serial must outlive its event, or it would be given twice.
                    txn.put(b"last", encode_key(last), db=self._meta)
                    return since
        return since

    def forget_old(self, now_ms: int) -> int:
        """Drop marks that nobody used for their age, and copies as old as events may be here.
        Returns how many marks were dropped."""
        dropped = 0
        limit = now_ms - self._retention.marks_age_ms
        oldest = now_ms - self._retention.max_age_ms
        with self._writing() as txn, txn.cursor(db=self._marks) as cursor:
            more = cursor.first()
            while more:
                if int.from_bytes(cursor.value()[8:16], "big") < limit:
                    more = cursor.delete()
                    dropped += 1
                else:
                    more = cursor.next()
            left = {o: self._kept.forget(txn, o, span, oldest) for o, span in self.kept.items()}
        self.kept = {origin: span for origin, span in left.items() if span is not None}
        return dropped

    # ------------------------------------------------------------------ reading

    @property
    def bounds(self) -> Bounds:
        """What was committed last."""
        return self._bounds

    @property
    def last_arrival(self) -> int:
        """The arrival time of the newest event when the log was opened; 0 if there was none."""
        return self._arrival

    def read(self, start: int, max_events: int, max_bytes: int) -> list[LoggedEvent]:
        """Up to `max_events` events from the serial `start` on, about `max_bytes` at the most.

        Begins later than `start` where retention has taken events.
        """
        with self._guard, self._reading() as txn, txn.cursor(db=self._events) as cursor:
            return page(cursor, start, max_events, max_bytes)

    def read_of(
        self, origin: str, after: Mark, max_events: int, max_bytes: int
    ) -> list[LoggedEvent]:
        """The same of the events of one origin that lie behind `after`."""
        found: list[LoggedEvent] = []
        with self._guard, self._reading() as txn:
            for chunk in self._origins.chunks(txn, origin, after):
                for event in chunk.events(chunk.after(after) or chunk.first):
                    found.append(event)
                    max_bytes -= event.size
                    if len(found) >= max_events or max_bytes <= 0:
                        return found
        return found

    def read_kept(
        self, origin: str, after: Mark, max_events: int, max_bytes: int
    ) -> list[LoggedEvent]:
        """The same of those that are kept for their origin."""
        with self._guard, self._reading() as txn:
            return self._kept.read(txn, origin, after, max_events, max_bytes)

    def first_after(self, origin: str, mark: Mark) -> int:
        """The serial of the first event of an origin behind `mark`; one past the last if none."""
        with self._guard, self._reading() as txn:
            found = self._origins.after(txn, origin, mark)
            return self._ends(txn)[1] + 1 if found is None else found

    def first_at(self, arrival: int) -> int:
        """The serial of the first event logged at or after `arrival` (ms since 1970).

        Arrival times rise with serials, so halving finds it.
        """
        with self._guard, self._reading() as txn, txn.cursor(db=self._events) as cursor:
            low, high = self._ends(txn)
            high += 1
            while low < high:
                middle = (low + high) // 2
                chunk = Chunk.holding(cursor, middle)
                assert chunk is not None
                if chunk.arrival(middle) >= arrival:
                    high = middle
                else:
                    low = middle + 1
            return low

    def arrival_of(self, serial: int) -> int:
        """When the event at `serial`, or the next one, was logged; 0 if there is none."""
        with self._guard, self._reading() as txn, txn.cursor(db=self._events) as cursor:
            chunk = Chunk.holding(cursor, serial)
            return 0 if chunk is None else chunk.arrival(max(serial, chunk.first))

    def position_before(self, serial: int) -> dict[str, Mark]:
        """For each origin the place of its last event before `serial` that is kept."""
        with self._guard, self._reading() as txn:
            return self._origins.position_before(txn, serial)

    def mark_of(self, publisher: Publisher) -> bytes | None:
        """The stored de-duplication window of a publisher."""
        with self._guard, self._env.begin(db=self._marks) as txn:
            value = txn.get(_publisher_key(publisher))
            return None if value is None else bytes(value)

    def newest_incarnation(self, client_id: str) -> bytes | None:
        """What was stored with `Commit.clients` for a client."""
        with self._guard, self._env.begin(db=self._clients) as txn:
            value = txn.get(client_id.encode())
            return None if value is None else bytes(value)

    def durables(self) -> list[tuple[bytes, bytes]]:
        """All stored durable subscriptions."""
        with self._guard, self._env.begin(db=self._durables) as txn, txn.cursor() as cursor:
            return [(bytes(key), bytes(value)) for key, value in cursor]

    def _ends(self, txn: lmdb.Transaction) -> tuple[int, int]:
        with txn.cursor(db=self._events) as cursor:
            oldest, newest = Chunk.first_of(cursor), Chunk.last_of(cursor)
            if oldest is None or newest is None:
                stored = txn.get(b"last", db=self._meta)
                last = 0 if stored is None else decode_key(stored)
                return last + 1, last
            return oldest.first, newest.last

    def _used(self, txn: lmdb.Transaction) -> int:
        """Bytes of the pages that hold events: what `max_bytes` bounds."""
        return table_bytes(txn, self._events)


def _further(one: Mapping[str, Mark], other: Mapping[str, Mark]) -> dict[str, Mark]:
    return {o: max(one.get(o, (0, 0)), other.get(o, (0, 0))) for o in {*one, *other}}


def _publisher_key(publisher: Publisher) -> bytes:
    client_id, incarnation = publisher
    return client_id.encode() + b"\0" + incarnation.to_bytes(8, "big")
