"""The event log as the node uses it: places given at once, commits grouped, off the reactor thread.

At most one commit is under way; whatever arrives meanwhile is gathered and goes with the next
one, so the price of a durable write is shared by as many events as there are. An event has its
place as soon as it is appended, but nobody is told of it before its commit.

A commit that fails takes everything gathered after it along (later events of a publisher may not
overtake earlier ones), and a new epoch begins: the offsets are given again, but no place is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.errors import BrokerError, Cloned, LogUnavailable
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

#: After a failed commit, when (seconds) to come again: the disk is tried again in half of that.
RETRY_AFTER = 1.0
#: How long (seconds) a change that can wait (a durable position) waits for company.
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
    ) -> None:
        """`wall_clock` gives ms since 1970; `write` and `read` are threads of their own."""
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
        self.failures = 0
        self.commits = 0
        self.startup_repairs = file.startup_repairs
        if file.startup_repairs:
            self.log.error(
                "the event log was damaged: {mended.healed} values were taken from copies, "
                "{count} are lost: {lost}",
                mended=file.startup_repairs,
                count=len(file.startup_repairs.lost),
                lost=", ".join(file.startup_repairs.lost[:20]),
            )
        self.coverage = Coverage(file.covered)
        """Up to where it has, durably, all that this node wants of each origin; its own too."""
        self.deduplication = Deduplication(file.stored_window, window)
        self.on_rollback: Callable[[int], object] = lambda _: None
        """Told the next serial when a failed commit has taken serials and places back."""

    # ------------------------------------------------------------------ where it stands

    @property
    def own_end(self) -> Mark:
        """(epoch, offset) of the newest event that this node has given a place, durable or not.

        Whoever subscribes now gets everything after it live. It is in an epoch that is durable: an
        end of the process now does not make it a place of another event.
        """
        return (self._bounds.epoch, self._next_offset - 1)

    @property
    def newest(self) -> Mark:
        """(epoch, serial) of the newest event; no two ever have the same, for epochs rise."""
        return (self._epoch, self._next_serial - 1)

    @property
    def newest_durable(self) -> Mark:
        """The newest durable one."""
        return (self._bounds.epoch, self._bounds.last)

    def end_position(self) -> dict[str, Mark]:
        """For each origin up to where the log covers it, durably or not yet: the cut of whoever
        subscribes now."""
        marks = self.coverage.marks
        if self._committing is not None:
            marks.update(self._committing.commit.covered)
        marks.update(self._pending.commit.covered)
        marks[self.origin] = self.own_end
        return marks

    @property
    def unlogged_places(self) -> int:
        """Places of other origins that were covered since the start, and whose events are not in
        the log: filtered, denied or turned away before it, or known from another place."""
        bounds, begun = self._bounds, self._start_bounds
        relayed = (bounds.last - begun.last) - (bounds.offset - begun.offset)
        return self.coverage.count_places(self.origin) - relayed

    @property
    def pending_bytes(self) -> int:
        """Bytes of events that wait for a commit or are in one."""
        return self._pending.document_bytes + (
            self._committing.document_bytes if self._committing else 0
        )

    @property
    def is_writable(self) -> bool:
        """Whether the last commit that was tried has succeeded: that tells of its epoch."""
        return self._epoch == self._bounds.epoch

    def check_available(self) -> None:
        """Raise `LogUnavailable` while the log rests after a failure: until it is written that a
        new epoch has begun, no place in it is given."""
        if self._disowned_by is not None:
            raise Cloned(str(self._disowned_by))
        if self._epoch != self._bounds.epoch:
            raise LogUnavailable("the event log can not be written at the moment; retry later")

    # ------------------------------------------------------------------ writing

    def append(self, entries: Sequence[tuple[bytes, int, bytes]], done: OnCommitted) -> None:
        """Give places to events and see to it that they become durable.

        An entry is (record, rank of the security level, document). `done` is called on the reactor
        thread, in the order of the appends, also where there is no entry: a batch of duplicates
        is durable when the commits before it are. Raises `LogUnavailable` while the log rests.
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
        self._next_serial, self._next_offset = serial, offset
        self._pending.add_events(events, (origin, (epoch, offset - 1)) if events else None, done)
        if self._committing is None:
            self._commit_now()

    def append_relayed(self, relayed: RelayedEvents, done: OnCommitted) -> None:
        """See to it that events of another origin become durable, in the place that they have.

        `done` is called as that of `append`. Without entries the coverage alone moves, and that is
        not worth a commit of its own. Raises `LogUnavailable` while the log rests.
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
        self, keeping: ReplicaBatch, done: Callable[[BrokerError | None], None]
    ) -> None:
        """Keep copies of another node's events; `done` is told when they are durable, or why not.

        Raises `LogUnavailable` while the log rests.
        """
        self.check_available()
        self._pending.commit.replicas.append(keeping)
        self._pending.callbacks.append(
            (lambda result: done(result if isinstance(result, BrokerError) else None), [])
        )
        self._commit_now()

    def has_origin(self, origin: str) -> bool:
        """Whether it has something of an origin, or is about to: if only where that begins."""
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
        """Store (or with None forget) a durable subscription, within `INTEREST_EXPIRY`.

        At once where somebody waits for it to be `stored`.
        """
        self._pending.commit.durables.append((key, value))
        if stored is not None:
            self._pending.state_callbacks.append(stored)
        if stored is None or not self.is_writable:
            self._commit_soon()
        else:
            self._commit_now()

    def when_state_committed(self) -> Deferred[None]:
        """Fires when all durable subscriptions put so far are committed, however late."""
        committed: Deferred[None] = Deferred()
        self._pending.state_callbacks.append(lambda: committed.callback(None))
        # Otherwise the disk is tried again in any case.
        if self.is_writable:
            self._commit_now()
        return committed

    def put_client(self, client_id: str, newest: bytes) -> None:
        """Store a client's newest incarnation, within `INTEREST_EXPIRY` and before its next event."""
        self._pending.commit.clients.append((client_id, newest))
        self._commit_soon()

    def _commit_soon(self) -> None:
        if self._committing is None and self._commit_timer is None:
            rest = self._retry_at - self._clock.seconds()
            self._commit_timer = self._clock.callLater(
                max(COMMIT_DELAY, rest), self._commit_timer_fired
            )

    def _commit_timer_fired(self) -> None:
        self._commit_timer = None
        self._commit_now()

    def _commit_now(self) -> None:
        """Commit what was gathered, unless a commit is under way: its end begins the next."""
        if self._committing is not None:
            return
        if self._commit_timer is not None:
            self._cancel_commit_timer()
        gathering = self._pending
        commit = gathering.commit
        if not commit.events and gathering.is_empty and self.is_writable:
            self._finish_without_commit(gathering)
            return
        commit.marks = self.deduplication.take_changed()
        self._committing, self._pending = gathering, PendingCommit()
        self.commits += 1
        result = self._write(self._file.commit, commit, self._epoch, self._wall_clock())
        result.addCallbacks(self._commit_succeeded, self._commit_failed)

    def _commit_succeeded(self, bounds: Bounds) -> None:
        committed, self._committing = self._committing, None
        assert committed is not None
        self._bounds = bounds
        self.coverage.advance(committed.commit.covered, committed.commit.begins_after)
        if self._is_failing and committed.commit.events:
            self._is_failing = False
            self.log.info("the event log can be written again")
        # The next commit is under way before anyone is told of this one: disk and CPU overlap.
        if self._pending.commit.events:
            self._commit_now()
        for done, events in committed.callbacks:
            try:
                done(events)
            except Exception:
                self.log.failure("a call after a commit failed")
        for stored in committed.state_callbacks:
            self._call(stored)
        gathering = self._pending
        waits = (
            gathering.callbacks
            or gathering.state_callbacks
            or self._drain_waiters
            or not gathering.is_empty
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
            # Once, and not with every attempt: a full disk is full for hours.
            self._is_failing = True
            self.log.error("{error}; nothing is acknowledged until it can be", error=error)
        self._pending = PendingCommit()
        # State is not an event: it is kept and goes with the next commit that succeeds.
        for gathering in failed:
            self._pending.take_state(gathering)
        self._epoch += 1
        self._next_serial = self._bounds.last + 1
        self._next_offset = self._bounds.offset + 1
        self.deduplication.clear()
        self._retry_at = self._clock.seconds() + RETRY_AFTER / 2
        self._write(self._file.reopen).addErrback(lambda _: None)
        self.on_rollback(self._next_serial)
        for gathering in failed:
            for done, _ in gathering.callbacks:
                self._call(done, error)
        # Who drains a log that can not be written is not kept waiting for a disk.
        self._fire_drain_waiters()
        self._commit_soon()

    def _finish_without_commit(self, gathering: PendingCommit) -> None:
        """Nothing is left to write: who appended nothing but duplicates, or drains, is told."""
        self._pending = PendingCommit()
        for done, events in gathering.callbacks:
            self._call(done, events)
        for stored in gathering.state_callbacks:
            self._call(stored)
        self._fire_drain_waiters()

    def _call(self, whom: Callable[..., object], *what: object) -> None:
        """One who breaks must keep nobody else from being told."""
        try:
            whom(*what)
        except Exception:
            self.log.failure("what follows a commit failed")

    def _fire_drain_waiters(self) -> None:
        idle, self._drain_waiters = self._drain_waiters, []
        for waiting in idle:
            waiting.callback(None)

    # ------------------------------------------------------------------ reading

    def first_at(self, arrival: int) -> int:
        """The serial of the first event that arrived at `arrival` (ms since 1970) or later.

        The next one to be given if there is none yet.
        """
        serial = self._file.first_at(arrival)
        if serial <= self._bounds.last:
            return serial
        pending = list(self._pending.commit.events)
        if self._committing is not None:
            pending = self._committing.commit.events + pending
        return next(
            (event.serial for event in pending if event.arrival >= arrival), self._next_serial
        )

    # ------------------------------------------------------------------ care and end

    def drop_old_windows(self) -> Deferred[int]:
        """Drop de-duplication marks that were not used for their age."""
        return self._write(self._file.drop_old, self._wall_clock())

    def drain(self) -> Deferred[None]:
        """Fires when everything appended so far is durable or has failed."""
        idle: Deferred[None] = Deferred()
        self._drain_waiters.append(idle)
        self._commit_now()
        return idle

    def close_unused(self) -> None:
        """Close, in this thread, a log to which nothing was appended."""
        self._file.close()

    def crash(self) -> None:
        """Let go of the file as the end of the process would, for a simulation of that."""
        self._cancel_commit_timer()
        self._file.crash()

    def close(self) -> Deferred[None]:
        """Commit what is left, note a clean end, close."""

        def drained(_: object) -> Deferred[None]:
            self._cancel_commit_timer()
            return self._write(self._file.close, self._epoch)

        return self.drain().addCallback(drained)

    def _cancel_commit_timer(self) -> None:
        if self._commit_timer is not None:
            self._commit_timer.cancel()
            self._commit_timer = None
