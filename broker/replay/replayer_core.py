"""Sans-I/O core of the replay process: requests become jobs, spools become pages (X8, X16, Q3).

| replay | until | next |
|---|---|---|
| waiting | no job runs, no request for `GATHER_SECONDS` | in a job, with all that wait |
| in a job | the job ends | ready; or failed, and forgotten |
| ready | its last event is sent | sent |
| sent | it is cancelled | forgotten |

A page is read and sent when the node has requested one (`More`). Replays take turns, and reading
stops while the connection is full. When the connection is lost, replays stay for `LEASE_SECONDS`;
`Resume` continues one. `Cancel` forgets a replay in any state. When the last replay of a job is
forgotten, the job is stopped or its folder deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.errors import (
    BadPosition,
    BrokerError,
    Overloaded,
    ProtocolError,
    UnknownSubscription,
    WireError,
)
from broker.recovery.page_schedule import PageSchedule
from broker.replay import replayer_messages as messages
from broker.replay.engine.contract import Report
from broker.replay.replay_entry import (
    GATHER_SECONDS,
    LEASE_SECONDS,
    MAX_GATHER_SECONDS,
    ReplayEntry,
    ReplayerLimits,
    ReplayState,
)
from broker.replay.replayer_effects import (
    CancelJob,
    DeleteJob,
    DeleteRequest,
    Drop,
    Effect,
    ReadPage,
    Send,
    StartJob,
)
from broker.replay.request import ReplayRequest


class ReplayerCore:
    """The core. Its methods return effects, and may change `next_timeout`."""

    def __init__(self, limits: ReplayerLimits) -> None:
        self._limits = limits
        self._replays: dict[int, ReplayEntry] = {}
        self._lease_ends: dict[int, float] = {}
        """Time at which each replay without a connection is forgotten, by id."""
        self._spooled_bytes = 0
        self._schedules: dict[int, PageSchedule] = {}
        """Turns of replays with requested pages, by connection."""
        self._jobs: dict[int, dict[int, ReplayEntry]] = {}
        self._running_job: int | None = None
        self._job_start: float | None = None
        self._latest_job_start = 0.0
        self._last_job = 0
        self._failed_jobs = 0

    # ---------------------------------------------------------------- connections

    def connection_lost(self, connection: int, now: float) -> None:
        """Detach replays from a lost connection. Its number is not used again."""
        self._schedules.pop(connection, None)
        for replay in self._replays.values():
            if replay.connection == connection:
                replay.connection = None
                replay.credit = 0
                self._lease_ends[replay.id] = now + LEASE_SECONDS

    def message_received(
        self, connection: int, message: messages.Message, now: float
    ) -> list[Effect]:
        match message:
            case messages.Replay():
                return self._accept_replay(connection, message, now)
            case messages.More():
                return self._add_credit(connection, message)
            case messages.Cancel():
                replay = self._replays.get(message.id)
                return [] if replay is None else self._forget(replay)
            case messages.Resume():
                return self._resume(connection, message)
            case messages.Status():
                return [Send(connection, messages.State(dict(self.snapshot())))]
            case _:
                error = ProtocolError(f"a node does not send {type(message).__name__}")
                return [Drop(connection, error)]

    def _accept_replay(self, connection: int, message: messages.Replay, now: float) -> list[Effect]:
        if message.id in self._replays:
            return [Drop(connection, ProtocolError(f"the replay id {message.id} is in use"))]
        try:
            request = ReplayRequest.from_wire(message.request)
            self._check_limits()
        except BrokerError as error:
            return [Send(connection, messages.Failed(message.id, error.to_wire()))]
        self._replays[message.id] = ReplayEntry(message.id, request, connection)
        if self._job_start is None:
            self._latest_job_start = now + MAX_GATHER_SECONDS
        # Thousands of clients may return together. While requests arrive, the job waits.
        self._job_start = min(now + GATHER_SECONDS, self._latest_job_start)
        return [Send(connection, messages.Accepted(message.id))]

    def _check_limits(self) -> None:
        if len(self._replays) >= self._limits.replays:
            raise Overloaded(f"the maximum of {len(self._replays)} replays is reached")
        if self._spooled_bytes > self._limits.spool_bytes:
            raise Overloaded(f"{self._spooled_bytes} spooled bytes have not been fetched yet")

    def _add_credit(self, connection: int, message: messages.More) -> list[Effect]:
        replay = self._replays.get(message.id)
        if replay is None or replay.connection != connection:
            # The replay may have failed or moved to another connection meanwhile.
            return []
        replay.credit = min(replay.credit + message.pages, self._limits.pages)
        return self._schedule_page(replay)

    def _resume(self, connection: int, message: messages.Resume) -> list[Effect]:
        replay = self._replays.get(message.id)
        if replay is None:
            unknown_error = UnknownSubscription(
                f"replay {message.id} no longer exists: request it again"
            )
            return [Send(connection, messages.Failed(message.id, unknown_error.to_wire()))]
        if replay.has_result and message.first > replay.report.events:
            position_error = BadPosition(f"replay {message.id} has {replay.report.events} events")
            return [Send(connection, messages.Failed(message.id, position_error.to_wire()))]
        replay.connection = connection
        self._lease_ends.pop(replay.id, None)
        replay.credit, replay.is_reading = 0, False
        replay.generation += 1
        replay.next_event = message.first
        effects: list[Effect] = [Send(connection, messages.Accepted(message.id))]
        if replay.has_result:
            replay.state = ReplayState.READY
            effects += [Send(connection, messages.Found(replay.id, replay.report.to_wire()))]
            effects += self._schedule_page(replay)
        return effects

    def pause_connection(self, connection: int) -> None:
        """Stop reading pages for a full connection."""
        self._schedule_of(connection).pause()

    def resume_connection(self, connection: int) -> list[Effect]:
        """Continue with a connection whose sent data has left."""
        self._schedule_of(connection).resume()
        return self._read_next_pages(connection)

    # ---------------------------------------------------------------- time

    def next_timeout(self) -> float | None:
        times = list(self._lease_ends.values())
        if self._job_start is not None and self._running_job is None:
            times.append(self._job_start)
        return min(times, default=None)

    def handle_timeout(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for number in [number for number, expires in self._lease_ends.items() if expires <= now]:
            effects += self._forget(self._replays[number])
        return effects + self._start_job(now)

    # ---------------------------------------------------------------- jobs

    def _start_job(self, now: float) -> list[Effect]:
        if self._running_job is not None or self._job_start is None or self._job_start > now:
            return []
        waiting = [each for each in self._replays.values() if each.state is ReplayState.WAITING]
        chosen = waiting[: self._limits.requests]
        self._latest_job_start = now
        self._job_start = now if len(waiting) > len(chosen) else None
        if not chosen:
            return []
        self._last_job += 1
        self._running_job = self._last_job
        self._jobs[self._running_job] = dict(enumerate(chosen))
        for number, replay in enumerate(chosen):
            replay.state, replay.job, replay.number = ReplayState.IN_JOB, self._running_job, number
        return [StartJob(self._running_job, tuple(replay.request for replay in chosen))]

    def job_progress(self, job: int, done: int, of: int) -> list[Effect]:
        return [
            Send(replay.connection, messages.Progress(replay.id, done, of))
            for replay in self._jobs.get(job, {}).values()
            if replay.connection is not None
        ]

    def job_done(self, job: int, reports: Sequence[Report], now: float) -> list[Effect]:
        return self._finish_job(job, reports, None, now)

    def job_failed(self, job: int, error: BrokerError, now: float) -> list[Effect]:
        self._failed_jobs += 1
        return self._finish_job(job, (), error.to_wire(), now)

    def _finish_job(
        self, job: int, reports: Sequence[Report], error: WireError | None, now: float
    ) -> list[Effect]:
        self._running_job = None
        # All its replays are forgotten, so its folder is deleted now.
        effects: list[Effect] = [] if job in self._jobs else [DeleteJob(job)]
        for number, replay in list(self._jobs.get(job, {}).items()):
            report = Report(error=error) if error is not None else reports[number]
            if report.error is not None:
                effects += self._fail(replay, report.error)
            else:
                effects += self._set_ready(replay, report)
        return effects + self._start_job(now)

    def _set_ready(self, replay: ReplayEntry, report: Report) -> list[Effect]:
        if replay.next_event > report.events:
            error = BadPosition(f"replay {replay.id} has {report.events} events")
            return self._fail(replay, error.to_wire())
        replay.state, replay.report = ReplayState.READY, report
        self._spooled_bytes += report.bytes
        effects: list[Effect] = []
        if replay.connection is not None:
            effects.append(Send(replay.connection, messages.Found(replay.id, report.to_wire())))
        return effects + self._schedule_page(replay)

    # ---------------------------------------------------------------- pages

    def _schedule_page(self, replay: ReplayEntry) -> list[Effect]:
        if not self._can_read_page(replay):
            return []
        assert replay.connection is not None
        if replay.next_event >= replay.report.events:
            replay.state = ReplayState.SENT
            return [Send(replay.connection, messages.Done(replay.id))]
        if not replay.credit:
            return []
        self._schedule_of(replay.connection).enqueue(replay.id)
        return self._read_next_pages(replay.connection)

    @staticmethod
    def _can_read_page(replay: ReplayEntry) -> bool:
        return (
            replay.state is ReplayState.READY
            and replay.connection is not None
            and not replay.is_reading
        )

    def _schedule_of(self, connection: int) -> PageSchedule:
        return self._schedules.setdefault(connection, PageSchedule())

    def _read_next_pages(self, connection: int) -> list[Effect]:
        def may_read(number: int) -> bool:
            # The replay may have failed or moved to another connection while it waited.
            replay = self._replays.get(number)
            return (
                replay is not None
                and replay.connection == connection
                and self._can_read_page(replay)
            )

        effects: list[Effect] = []
        for number in self._schedule_of(connection).start_next(may_read):
            replay = self._replays[number]
            replay.is_reading = True
            page = ReadPage(
                number, replay.job, replay.number, replay.next_event, replay.generation, connection
            )
            effects.append(page)
        return effects

    def page_read(self, page: ReadPage, chunks: Sequence[bytes], events: int) -> list[Effect]:
        """Send a page with `events` events, at least one."""
        effects: list[Effect] = []
        replay = self._current_replay(page)
        if replay is not None and replay.connection is not None:
            replay.is_reading = False
            replay.credit -= 1
            replay.next_event = page.first + events
            message = messages.Page(replay.id, page.first, tuple(chunks))
            effects += [Send(replay.connection, message), *self._schedule_page(replay)]
        return effects + self._release_page(page)

    def page_failed(self, page: ReadPage, error: BrokerError) -> list[Effect]:
        replay = self._current_replay(page)
        effects = [] if replay is None else self._fail(replay, error.to_wire())
        return effects + self._release_page(page)

    def _release_page(self, page: ReadPage) -> list[Effect]:
        if page.connection not in self._schedules:
            return []
        self._schedules[page.connection].finish_read()
        return self._read_next_pages(page.connection)

    def _current_replay(self, page: ReadPage) -> ReplayEntry | None:
        replay = self._replays.get(page.id)
        if replay is None or replay.generation != page.generation or not replay.is_reading:
            return None
        if replay.connection is None:
            # The page was read for a lost connection.
            replay.is_reading = False
        return replay

    # ---------------------------------------------------------------- the end

    def _fail(self, replay: ReplayEntry, error: WireError) -> list[Effect]:
        effects = self._forget(replay)
        if replay.connection is not None:
            effects.append(Send(replay.connection, messages.Failed(replay.id, error)))
        return effects

    def _forget(self, replay: ReplayEntry) -> list[Effect]:
        del self._replays[replay.id]
        self._lease_ends.pop(replay.id, None)
        self._spooled_bytes -= replay.report.bytes
        if replay.state is ReplayState.WAITING:
            return []
        remaining = self._jobs[replay.job]
        del remaining[replay.number]
        if remaining:
            return [DeleteRequest(replay.job, replay.number)]
        del self._jobs[replay.job]
        return [CancelJob(replay.job) if replay.job == self._running_job else DeleteJob(replay.job)]

    def snapshot(self) -> Mapping[str, int]:
        found = {state.name.lower(): 0 for state in ReplayState}
        for replay in self._replays.values():
            found[replay.state.name.lower()] += 1
        return {
            **found,
            "bytes": self._spooled_bytes,
            "jobs": self._last_job,
            "failed_jobs": self._failed_jobs,
        }
