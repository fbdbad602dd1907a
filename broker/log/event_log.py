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
from broker.log.commit import Bounds, Keeping
from broker.log.coverage import Coverage
from broker.log.deduplication import Deduplication
from broker.log.pending_commit import Done, Gathering, Relayed
from broker.log.log_file import LogFile
from broker.log.log_history import LogHistories
from broker.log.logged_event import LoggedEvent
from broker.log.repair import Repairs
from broker.log.worker import Worker
from broker.transport.clock import IClock

#: After a failed commit, when (seconds) to come again: the disk is tried again in half of that.
RETRY_AFTER = 1.0
#: How long (seconds) a change that can wait (a durable position) waits for company.
LINGER = 0.1


class EventLog(LogHistories):
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
        bounds = self._begun = file.bounds
        self._epoch = bounds.epoch
        self._next = bounds.last + 1
        self._next_offset = bounds.offset + 1
        self._arrival = file.last_arrival
        self._gathering = Gathering()
        self._committing: Gathering | None = None
        self._linger: Any = None
        self._retry_at = 0.0
        self._failing = False
        self._idle: list[Deferred[None]] = []
        self.failures = 0
        self.commits = 0
        self.mended = file.mended
        if file.mended:
            self.log.error(
                "the event log was damaged: {mended.healed} values were taken from copies, "
                "{count} are lost: {lost}",
                mended=file.mended,
                count=len(file.mended.lost),
                lost=", ".join(file.mended.lost[:20]),
            )
        self.coverage = Coverage(file.covered)
        """Up to where it has, durably, all that this node wants of each origin; its own too."""
        self.deduplication = Deduplication(file.mark_of, window)
        self.began_again: Callable[[int], object] = lambda _: None
        """Told the next serial when a failed commit has taken serials and places back."""

    # ------------------------------------------------------------------ where it stands

    @property
    def cut(self) -> Mark:
        """(epoch, offset) of the newest event that this node has given a place, durable or not.

        Whoever subscribes now gets everything after it live. It is in an epoch that is durable: an
        end of the process now does not make it a place of another event.
        """
        return (self._bounds.epoch, self._next_offset - 1)

    @property
    def newest(self) -> Mark:
        """(epoch, serial) of the newest event; no two ever have the same, for epochs rise."""
        return (self._epoch, self._next - 1)

    @property
    def durable(self) -> Mark:
        """The newest durable one."""
        return (self._bounds.epoch, self._bounds.last)

    def position(self) -> dict[str, Mark]:
        """For each origin up to where the log covers it, durably or not yet: the cut of whoever
        subscribes now."""
        marks = self.coverage.marks
        if self._committing is not None:
            marks.update(self._committing.commit.covered)
        marks.update(self._gathering.commit.covered)
        marks[self.origin] = self.cut
        return marks

    @property
    def places_elsewhere(self) -> int:
        """Places of other origins that were covered since the start, and whose events are not in
        the log: filtered, denied or turned away before it, or known from another place."""
        bounds, begun = self._bounds, self._begun
        relayed = (bounds.last - begun.last) - (bounds.offset - begun.offset)
        return self.coverage.places(self.origin) - relayed

    @property
    def pending_bytes(self) -> int:
        """Bytes of events that wait for a commit or are in one."""
        return self._gathering.size + (self._committing.size if self._committing else 0)

    @property
    def is_writable(self) -> bool:
        """Whether the last commit that was tried has succeeded: that tells of its epoch."""
        return self._epoch == self._bounds.epoch

    def check_available(self) -> None:
        """Raise `LogUnavailable` while the log rests after a failure: until it is written that a
        new epoch has begun, no place in it is given."""
        if self._disowned is not None:
            raise Cloned(str(self._disowned))
        if self._epoch != self._bounds.epoch:
            raise LogUnavailable("the event log can not be written at the moment; retry later")

    # ------------------------------------------------------------------ writing

    def append(self, entries: Sequence[tuple[bytes, int, bytes]], done: Done) -> None:
        """Give places to events and see to it that they become durable.

        An entry is (record, rank of the security level, document). `done` is called on the reactor
        thread, in the order of the appends, also where there is no entry: a batch of duplicates
        is durable when the commits before it are. Raises `LogUnavailable` while the log rests.
        """
        self.check_available()
        arrival = self._arrival = max(self._arrival, self._wall_clock())
        epoch, offset, serial = self._epoch, self._next_offset, self._next
        origin = self._file.origin
        events = []
        for record, level, document in entries:
            events.append(
                LoggedEvent(epoch, offset, arrival, level, record, document, origin, serial)
            )
            offset += 1
            serial += 1
        self._next, self._next_offset = serial, offset
        self._gathering.add(events, (origin, (epoch, offset - 1)) if events else None, done)
        if self._committing is None:
            self._begin()

    def append_relayed(self, relayed: Relayed, done: Done) -> None:
        """See to it that events of another origin become durable, in the place that they have.

        `done` is called as that of `append`. Without entries the coverage alone moves, and that is
        not worth a commit of its own. Raises `LogUnavailable` while the log rests.
        """
        self.check_available()
        self._arrival = arrival = max(self._arrival, self._wall_clock())
        serial, origin = self._next, relayed.origin
        events = []
        for (epoch, offset), record, level, document in relayed.entries:
            events.append(
                LoggedEvent(epoch, offset, arrival, level, record, document, origin, serial)
            )
            serial += 1
        self._next = serial
        if relayed.gone is not None:
            self._gathering.commit.since[origin] = relayed.gone
        elif not self.covers(origin):
            self._gathering.commit.since[origin] = relayed.after
        covers = max(relayed.covers, self._covered_upto(origin))
        self._gathering.add(events, (origin, covers), done)
        if events:
            self._begin()
        else:
            self._begin_soon()

    def keep(self, keeping: Keeping, done: Callable[[BrokerError | None], None]) -> None:
        """Keep copies of another node's events; `done` is told when they are durable, or why not.

        Raises `LogUnavailable` while the log rests.
        """
        self.check_available()
        self._gathering.commit.keeping.append(keeping)
        self._gathering.told.append(
            (lambda result: done(result if isinstance(result, BrokerError) else None), [])
        )
        self._begin()

    def covers(self, origin: str) -> bool:
        """Whether it has something of an origin, or is about to: if only where that begins."""
        pending = (self._gathering, self._committing)
        return origin in self.coverage or any(
            one is not None and origin in one.commit.covered for one in pending
        )

    def _covered_upto(self, origin: str) -> Mark:
        pending = [self._gathering, *([self._committing] if self._committing else [])]
        return max(self.coverage[origin], *(g.commit.covered.get(origin, (0, 0)) for g in pending))

    def put_durable(
        self, key: bytes, value: bytes | None, stored: Callable[[], object] | None = None
    ) -> None:
        """Store (or with None forget) a durable subscription, within `INTEREST_EXPIRY`.

        At once where somebody waits for it to be `stored`.
        """
        self._gathering.commit.durables.append((key, value))
        if stored is not None:
            self._gathering.stored.append(stored)
        if stored is None or not self.is_writable:
            self._begin_soon()
        else:
            self._begin()

    def state_committed(self) -> Deferred[None]:
        """Fires when all durable subscriptions put so far are committed, however late."""
        committed: Deferred[None] = Deferred()
        self._gathering.stored.append(lambda: committed.callback(None))
        # Otherwise the disk is tried again in any case.
        if self.is_writable:
            self._begin()
        return committed

    def put_client(self, client_id: str, newest: bytes) -> None:
        """Store a client's newest incarnation, within `INTEREST_EXPIRY` and before its next event."""
        self._gathering.commit.clients.append((client_id, newest))
        self._begin_soon()

    def _begin_soon(self) -> None:
        if self._committing is None and self._linger is None:
            rest = self._retry_at - self._clock.seconds()
            self._linger = self._clock.callLater(max(LINGER, rest), self._lingered)

    def _lingered(self) -> None:
        self._linger = None
        self._begin()

    def _begin(self) -> None:
        """Commit what was gathered, unless a commit is under way: its end begins the next."""
        if self._committing is not None:
            return
        if self._linger is not None:
            self._stop_lingering()
        gathering = self._gathering
        commit = gathering.commit
        if not commit.events and gathering.empty and self.is_writable:
            self._settle(gathering)
            return
        commit.marks = self.deduplication.changed()
        self._committing, self._gathering = gathering, Gathering()
        self.commits += 1
        result = self._write(self._file.commit, commit, self._epoch, self._wall_clock())
        result.addCallbacks(self._committed, self._failed)

    def _committed(self, bounds: Bounds) -> None:
        committed, self._committing = self._committing, None
        assert committed is not None
        self._bounds = bounds
        self.coverage.rise(committed.commit.covered, committed.commit.since)
        if self._failing and committed.commit.events:
            self._failing = False
            self.log.info("the event log can be written again")
        # The next commit is under way before anyone is told of this one: disk and CPU overlap.
        if self._gathering.commit.events:
            self._begin()
        for done, events in committed.told:
            try:
                done(events)
            except Exception:
                self.log.failure("a call after a commit failed")
        for stored in committed.stored:
            self._tell(stored)
        gathering = self._gathering
        waits = gathering.told or gathering.stored or self._idle or not gathering.empty
        if self._committing is None and waits:
            self._begin()

    def _failed(self, failure: Failure) -> None:
        error = failure.value
        if not isinstance(error, BrokerError):
            error = LogUnavailable(f"the event log failed: {failure.getErrorMessage()}")
        committing, self._committing = self._committing, None
        assert committing is not None
        failed = [committing, self._gathering]
        self.failures += 1
        if not self._failing:
            # Once, and not with every attempt: a full disk is full for hours.
            self._failing = True
            self.log.error("{error}; nothing is acknowledged until it can be", error=error)
        self._gathering = Gathering()
        # State is not an event: it is kept and goes with the next commit that succeeds.
        for gathering in failed:
            self._gathering.keep_state(gathering)
        self._epoch += 1
        self._next = self._bounds.last + 1
        self._next_offset = self._bounds.offset + 1
        self.deduplication.forget()
        self._retry_at = self._clock.seconds() + RETRY_AFTER / 2
        self._write(self._file.reopen).addErrback(lambda _: None)
        self.began_again(self._next)
        for gathering in failed:
            for done, _ in gathering.told:
                self._tell(done, error)
        # Who drains a log that can not be written is not kept waiting for a disk.
        self._tell_idle()
        self._begin_soon()

    def _settle(self, gathering: Gathering) -> None:
        """Nothing is left to write: who appended nothing but duplicates, or drains, is told."""
        self._gathering = Gathering()
        for done, events in gathering.told:
            self._tell(done, events)
        for stored in gathering.stored:
            self._tell(stored)
        self._tell_idle()

    def _tell(self, whom: Callable[..., object], *what: object) -> None:
        """One who breaks must keep nobody else from being told."""
        try:
            whom(*what)
        except Exception:
            self.log.failure("what follows a commit failed")

    def _tell_idle(self) -> None:
        idle, self._idle = self._idle, []
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
        pending = list(self._gathering.commit.events)
        if self._committing is not None:
            pending = self._committing.commit.events + pending
        return next((event.serial for event in pending if event.arrival >= arrival), self._next)

    # ------------------------------------------------------------------ care and end

    def forget_old_marks(self) -> Deferred[int]:
        """Drop de-duplication marks that were not used for their age."""
        return self._write(self._file.forget_old, self._wall_clock())

    def drain(self) -> Deferred[None]:
        """Fires when everything appended so far is durable or has failed."""
        idle: Deferred[None] = Deferred()
        self._idle.append(idle)
        self._begin()
        return idle

    def abandon(self) -> None:
        """Close, in this thread, a log to which nothing was appended."""
        self._file.close()

    def crash(self) -> None:
        """Let go of the file as the end of the process would, for a simulation of that."""
        self._stop_lingering()
        self._file.crash()

    def close(self) -> Deferred[None]:
        """Commit what is left, note a clean end, close."""

        def drained(_: object) -> Deferred[None]:
            self._stop_lingering()
            return self._write(self._file.close, self._epoch)

        return self.drain().addCallback(drained)

    def _stop_lingering(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
