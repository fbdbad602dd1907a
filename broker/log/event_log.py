"""Event log of a node: places at once, grouped commits, file access off the reactor thread.

At most one commit runs; events that arrive meanwhile share the next one. An event is announced only
after its commit.

A failed commit also fails everything appended after it, since later events of a publisher may not
overtake earlier ones. Then a new epoch begins: offsets are given again, but no place is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.errors import BrokerError, Cloned, LogUnavailable
from broker.event.flow import DEFAULT_ONLY, CarryingPatterns
from broker.event.place import Mark
from broker.log.commit import Bounds, ReplicaBatch
from broker.log.coverage import Coverage
from broker.log.deduplication import Deduplication
from broker.log.log_file import LogFile
from broker.log.log_history import LogHistory
from broker.log.logged_event import LoggedEvent
from broker.log.pending_commit import OnCommitted, PendingCommit, RelayedEvents
from broker.log.repair import Repairs
from broker.log.worker import Worker
from broker.transport.clock import IClock

#: Seconds until a publisher's retry; the disk is tried after half of it.
RETRY_AFTER = 1.0
#: Seconds that a change without urgency waits.
COMMIT_DELAY = 0.1


class EventLog(LogHistory):
    """Places, group commit, de-duplication and positions of one node."""

    log = Logger()

    def __init__(
        self,
        file: LogFile,
        *,
        clock: IClock,
        wall_clock: Callable[[], int],
        write: Worker,
        read: Worker,
        window: int = 1024,
        carrying: CarryingPatterns = DEFAULT_ONLY,
        ordered: CarryingPatterns | None = None,
        on_rollback: Callable[[int], object] = lambda _: None,
    ) -> None:
        """`wall_clock` gives ms since 1970; `write` and `read` are separate threads. `ordered` are
        the carrying patterns whose own events are withheld. Functions in `on_rollback` get the next
        serial after a failed commit has withdrawn serials and places."""
        file.update_flows(carrying, ordered)
        super().__init__(file, read, Repairs(file, write, clock))
        self._clock = clock
        self._wall_clock = wall_clock
        self._write = write
        bounds = self._start_bounds = file.bounds
        self._epoch = bounds.epoch
        self._next_serial = bounds.last + 1
        self._next_offset = bounds.offset + 1
        self._arrival = file.last_arrival
        self._pending = PendingCommit()
        self._committing: PendingCommit | None = None
        self._commit_timer: Any = None
        self._retry_at = 0.0
        self._is_failing = False
        self._drain_waiters: list[Deferred[None]] = []
        self.failures = self.commits = self._copies = 0
        self._log_startup_repairs()
        own = self.flows.delivered_marks(file.covered.get(file.origin, (0, 0)), file.covered)
        self.coverage = Coverage({**file.covered, **own})
        """Durable mark of each origin, its own too, up to which the log is complete."""
        self.deduplication = Deduplication(file.stored_window, window)
        self.on_rollback = [on_rollback]

    @property
    def own_end(self) -> Mark:
        """(epoch, offset) of the last given place, durable or not.

        A new subscription gets everything after it live. Its epoch is durable: after a crash no
        other event gets this place.
        """
        return (self._bounds.epoch, self._next_offset - 1)

    @property
    def newest(self) -> Mark:
        """(epoch, serial) of the newest event, unique since epochs rise."""
        return (self._epoch, self._next_serial - 1)

    @property
    def newest_durable(self) -> Mark:
        """(epoch, serial) of the newest durable event."""
        return (self._bounds.epoch, self._bounds.last)

    def end_position(self) -> dict[str, Mark]:
        """Return durable and other covered marks: the cut of a new subscription."""
        marks = self.coverage.marks
        if self._committing is not None:
            marks.update(self._committing.commit.covered)
        marks.update(self._pending.commit.covered)
        marks.update(self.own_cut())
        return marks

    def own_cut(self) -> dict[str, Mark]:
        """Return the mark of each own flow behind which a new subscription gets all events live."""
        copied = {flow: self._covered_upto(flow) for flow in self.flows.ordered}
        own = self.own_end
        return {self.origin: own, **self.flows.delivered_marks(own, copied)}

    @property
    def unlogged_places(self) -> int:
        """Covered places of other origins since the start without a logged event: filtered,
        refused, or known from another place."""
        bounds, begun = self._bounds, self._start_bounds
        relayed = (bounds.last - begun.last) - (bounds.offset - begun.offset) - self._copies
        return self.coverage.count_places(self.origin) - relayed

    @property
    def pending_bytes(self) -> int:
        """Bytes of events that wait for a commit or are being committed."""
        return self._pending.document_bytes + (
            self._committing.document_bytes if self._committing else 0
        )

    @property
    def is_writable(self) -> bool:
        """True if the last commit succeeded: then the epoch is stored."""
        return self._epoch == self._bounds.epoch

    def check_available(self) -> None:
        """Raise `LogUnavailable` after a failed commit, until the new epoch is stored."""
        if self._disowned_by is not None:
            raise Cloned(str(self._disowned_by))
        if self._epoch != self._bounds.epoch:
            raise LogUnavailable("the event log can not be written at the moment; retry later")

    def append(self, entries: Sequence[tuple[bytes, int, bytes]], done: OnCommitted) -> None:
        """Give places to events and commit them.

        An entry is (record, rank of the security level, document). `done` is called in the order of
        appends, also without entries: earlier commits are then durable. Raises `LogUnavailable`.
        """
        self.check_available()
        arrival = self._arrival = max(self._arrival, self._wall_clock())
        epoch, offset, serial = self._epoch, self._next_offset, self._next_serial
        origin = self._file.origin
        events = []
        for record, level, document in entries:
            events.append(
                LoggedEvent(epoch, offset, arrival, level, record, document, origin, serial)
            )
            offset += 1
            serial += 1
        if self.flows.own:
            self.flows.label_own(events)
        self._next_serial, self._next_offset = serial, offset
        self._pending.add_events(events, (origin, (epoch, offset - 1)) if events else None, done)
        if self._committing is None:
            self._commit_now()

    def append_relayed(self, relayed: RelayedEvents, done: OnCommitted) -> None:
        """Commit events with their existing places.

        `done` is called as for `append`. Without entries only the coverage moves, within
        `COMMIT_DELAY`. Raises `LogUnavailable`.
        """
        self.check_available()
        self._arrival = arrival = max(self._arrival, self._wall_clock())
        serial, origin = self._next_serial, relayed.origin
        events = []
        for (epoch, offset), record, level, document in relayed.entries:
            events.append(
                LoggedEvent(epoch, offset, arrival, level, record, document, origin, serial)
            )
            serial += 1
        self._next_serial = serial
        if relayed.lost_upto is not None:
            self._pending.commit.begins_after[origin] = relayed.lost_upto
        elif not self.has_origin(origin):
            self._pending.commit.begins_after[origin] = relayed.after
        covers = max(relayed.covered_upto, self._covered_upto(origin))
        self._pending.add_events(events, (origin, covers), done)
        if events:
            self._commit_now()
        else:
            self._commit_soon()

    def append_replica(
        self, replica: ReplicaBatch, done: Callable[[BrokerError | None], None]
    ) -> None:
        """`done` is called with None or the error. Raises `LogUnavailable`."""
        self.check_available()
        self._pending.commit.replicas.append(replica)
        self._pending.callbacks.append(
            (lambda result: done(result if isinstance(result, BrokerError) else None), [])
        )
        self._commit_now()

    def has_origin(self, origin: str) -> bool:
        """Return True if any coverage of an origin is committed or pending."""
        pending = (self._pending, self._committing)
        return origin in self.coverage or any(
            one is not None and origin in one.commit.covered for one in pending
        )

    def _covered_upto(self, origin: str) -> Mark:
        pending = [self._pending, *([self._committing] if self._committing else [])]
        return max(self.coverage[origin], *(g.commit.covered.get(origin, (0, 0)) for g in pending))

    def put_durable(
        self, key: bytes, value: bytes | None, stored: Callable[[], object] | None = None
    ) -> None:
        """Store a durable subscription, or delete it (None), within `COMMIT_DELAY`.

        With `stored` the commit starts at once.
        """
        self._pending.commit.durables.append((key, value))
        if stored is not None:
            self._pending.state_callbacks.append(stored)
        if stored is None or not self.is_writable:
            self._commit_soon()
        else:
            self._commit_now()

    def when_state_committed(self) -> Deferred[None]:
        """Fire when all durable subscriptions put so far are committed."""
        committed: Deferred[None] = Deferred()
        self._pending.state_callbacks.append(lambda: committed.callback(None))
        # Otherwise the pending retry commits them.
        if self.is_writable:
            self._commit_now()
        return committed

    def put_client(self, client_id: str, newest: bytes | None) -> None:
        """Store the value, or delete it, within `COMMIT_DELAY`, before the client's next event."""
        self._pending.commit.clients.append((client_id, newest))
        self._commit_soon()

    def _commit_soon(self) -> None:
        if self._committing is None and self._commit_timer is None:
            rest = self._retry_at - self._clock.seconds()
            self._commit_timer = self._clock.callLater(max(COMMIT_DELAY, rest), self._timer_fired)

    def _timer_fired(self) -> None:
        self._commit_timer = None
        self._commit_now()

    def _commit_now(self) -> None:
        """Commit pending contents; a running commit starts the next one."""
        if self._committing is not None:
            return
        if self._commit_timer is not None:
            self._cancel_commit_timer()
        pending = self._pending
        commit = pending.commit
        if not commit.events and pending.is_empty and self.is_writable:
            self._finish_without_commit(pending)
            return
        commit.marks = self.deduplication.take_changed()
        self._committing, self._pending = pending, PendingCommit()
        self.commits += 1
        result = self._write(self._file.commit, commit, self._epoch, self._wall_clock())
        result.addCallbacks(self._commit_succeeded, self._commit_failed)

    def _commit_succeeded(self, bounds: Bounds) -> None:
        committed, self._committing = self._committing, None
        assert committed is not None
        self._bounds = bounds
        covered = committed.commit.covered
        if self.flows.own and self.origin in covered:
            covered |= self.flows.prompt_marks(covered[self.origin])
        if ordered := self.flows.ordered:
            events = committed.commit.events
            self._copies += sum(e.origin in ordered and not e.is_withheld for e in events)
        self.coverage.advance(covered, committed.commit.begins_after)
        if self._is_failing and committed.commit.events:
            self._is_failing = False
            self.log.info("the event log can be written again")
        # The next commit starts before these callbacks: disk and CPU work in parallel.
        if self._pending.commit.events:
            self._commit_now()
        for done, events in committed.callbacks:
            try:
                done(events)
            except Exception:
                self.log.failure("a callback after a commit failed")
        for stored in committed.state_callbacks:
            self._call(stored)
        pending = self._pending
        waits = (
            pending.callbacks
            or pending.state_callbacks
            or self._drain_waiters
            or not pending.is_empty
        )
        if self._committing is None and waits:
            self._commit_now()

    def _commit_failed(self, failure: Failure) -> None:
        error = failure.value
        if not isinstance(error, BrokerError):
            error = LogUnavailable(f"the event log failed: {failure.getErrorMessage()}")
        committing, self._committing = self._committing, None
        assert committing is not None
        failed = [committing, self._pending]
        self.failures += 1
        if not self._is_failing:
            # Only the first failure is logged: a full disk stays full for hours.
            self._is_failing = True
            self.log.error("{error}; no event is acknowledged until it can be", error=error)
        self._pending = PendingCommit()
        for pending in failed:
            self._pending.take_state(pending)
        self._epoch += 1
        self._next_serial = self._bounds.last + 1
        self._next_offset = self._bounds.offset + 1
        self.deduplication.clear()
        self._retry_at = self._clock.seconds() + RETRY_AFTER / 2
        self._write(self._file.reopen).addErrback(lambda _: None)
        for rolled_back in self.on_rollback:
            rolled_back(self._next_serial)
        for pending in failed:
            for done, _ in pending.callbacks:
                self._call(done, error)
        # Draining does not wait for a disk that can not be written.
        self._fire_drain_waiters()
        self._commit_soon()

    def _finish_without_commit(self, pending: PendingCommit) -> None:
        self._pending = PendingCommit()
        for done, events in pending.callbacks:
            self._call(done, events)
        for stored in pending.state_callbacks:
            self._call(stored)
        self._fire_drain_waiters()

    def _call(self, callback: Callable[..., object], *arguments: object) -> None:
        """An exception must not affect other callbacks."""
        try:
            callback(*arguments)
        except Exception:
            self.log.failure("a callback after a commit failed")

    def _fire_drain_waiters(self) -> None:
        waiters, self._drain_waiters = self._drain_waiters, []
        for waiter in waiters:
            waiter.callback(None)

    def first_at(self, arrival: int) -> int:
        """Return the first serial from `arrival` (ms since 1970) on, else the next serial."""
        serial = self._file.first_at(arrival)
        if serial <= self._bounds.last:
            return serial
        pending = list(self._pending.commit.events)
        if self._committing is not None:
            pending = self._committing.commit.events + pending
        serials = (event.serial for event in pending if event.arrival >= arrival)
        return next(serials, self._next_serial)

    def drop_old_windows(self) -> Deferred[int]:
        return self._write(self._file.drop_old, self._wall_clock())

    def drain(self) -> Deferred[None]:
        """Fire when everything appended is durable or has failed."""
        idle: Deferred[None] = Deferred()
        self._drain_waiters.append(idle)
        self._commit_now()
        return idle

    def close_unused(self) -> None:
        """Close, in this thread, a log to which nothing was appended."""
        self._file.close()

    def crash(self) -> None:
        """Release the file without a clean end, to simulate a crash."""
        self._cancel_commit_timer()
        self._file.crash()

    def close(self) -> Deferred[None]:
        """Commit pending contents first."""

        def drained(_: object) -> Deferred[None]:
            self._cancel_commit_timer()
            return self._write(self._file.close, self._epoch)

        return self.drain().addCallback(drained)

    def _cancel_commit_timer(self) -> None:
        if self._commit_timer is not None:
            self._commit_timer.cancel()
            self._commit_timer = None
