"""Sans-I/O core of the replay process: requests become jobs, spools become pages (X8, X16, Q3).

| replay | until | next |
|---|---|---|
| waiting | no job runs, no request for `GATHER_SECONDS` | in a job, with all that wait |
| in a job | the job ends | ready; or failed, and forgotten |
| ready | its last event is sent | sent |
| sent | it is cancelled | forgotten |

The node requests each page (`More`). Replays take turns, and reading stops while the connection is
full. `Cancel` forgets a replay in any state. A job without replays is stopped, or its folder
deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.errors import BrokerError, Overloaded, ProtocolError, WireError
from broker.recovery.page_schedule import PageSchedule
from broker.replay import replayer_messages as messages
from broker.replay.engine.contract import Report
from broker.replay.replay_entry import (
    GATHER_SECONDS,
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
    """Methods return effects, and may change `next_timeout`."""

    def __init__(self, limits: ReplayerLimits) -> None:
        self._limits = limits
        self._replays: dict[int, ReplayEntry] = {}
        self._spooled_bytes = 0
        self._schedule = PageSchedule()
        self._jobs: dict[int, dict[int, ReplayEntry]] = {}
        self._running_job: int | None = None
        self._job_start: float | None = None
        self._latest_job_start = 0.0
        self._last_job = 0
        self._failed_jobs = 0

    # ---------------------------------------------------------------- the connection

    def message_received(self, message: messages.Message, now: float) -> list[Effect]:
        match message:
            case messages.Replay():
                return self._accept_replay(message, now)
            case messages.More():
                return self._add_credit(message)
            case messages.Cancel():
                replay = self._replays.get(message.id)
                return [] if replay is None else self._forget(replay)
            case messages.Status():
                return [Send(messages.State(dict(self.snapshot())))]
            case _:
                return [Drop(ProtocolError(f"a node does not send {type(message).__name__}"))]

    def _accept_replay(self, message: messages.Replay, now: float) -> list[Effect]:
        if message.id in self._replays:
            return [Drop(ProtocolError(f"the replay id {message.id} is in use"))]
        try:
            request = ReplayRequest.from_wire(message.request)
            self._check_limits()
        except BrokerError as error:
            return [Send(messages.Failed(message.id, error.to_wire()))]
        self._replays[message.id] = ReplayEntry(message.id, request)
        if self._job_start is None:
            self._latest_job_start = now + MAX_GATHER_SECONDS
        # Thousands of clients may return together, so each request delays the job.
        self._job_start = min(now + GATHER_SECONDS, self._latest_job_start)
        return [Send(messages.Accepted(message.id))]

    def _check_limits(self) -> None:
        if len(self._replays) >= self._limits.replays:
            raise Overloaded(f"the maximum of {len(self._replays)} replays is reached")
        if self._spooled_bytes > self._limits.spool_bytes:
            raise Overloaded(f"{self._spooled_bytes} spooled bytes have not been fetched yet")

    def _add_credit(self, message: messages.More) -> list[Effect]:
        replay = self._replays.get(message.id)
        if replay is None:
            # The replay may have failed meanwhile.
            return []
        replay.credit = min(replay.credit + message.pages, self._limits.pages)
        return self._schedule_page(replay)

    def pause(self) -> None:
        """Stop reading pages until `resume`."""
        self._schedule.pause()

    def resume(self) -> list[Effect]:
        self._schedule.resume()
        return self._read_next_pages()

    # ---------------------------------------------------------------- time

    def next_timeout(self) -> float | None:
        return self._job_start if self._running_job is None else None

    def handle_timeout(self, now: float) -> list[Effect]:
        return self._start_job(now)

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
            Send(messages.Progress(replay.id, done, of))
            for replay in self._jobs.get(job, {}).values()
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
        # All its replays are forgotten.
        effects: list[Effect] = [] if job in self._jobs else [DeleteJob(job)]
        for number, replay in list(self._jobs.get(job, {}).items()):
            report = Report(error=error) if error is not None else reports[number]
            if report.error is not None:
                effects += self._fail(replay, report.error)
            else:
                effects += self._set_ready(replay, report)
        return effects + self._start_job(now)

    def _set_ready(self, replay: ReplayEntry, report: Report) -> list[Effect]:
        replay.state, replay.report = ReplayState.READY, report
        self._spooled_bytes += report.bytes
        found = Send(messages.Found(replay.id, report.to_wire()))
        return [found, *self._schedule_page(replay)]

    # ---------------------------------------------------------------- pages

    def _schedule_page(self, replay: ReplayEntry) -> list[Effect]:
        if not replay.can_read:
            return []
        if replay.next_event >= replay.report.events:
            replay.state = ReplayState.SENT
            return [Send(messages.Done(replay.id))]
        if not replay.credit:
            return []
        self._schedule.enqueue(replay.id)
        return self._read_next_pages()

    def _read_next_pages(self) -> list[Effect]:
        def may_read(number: int) -> bool:
            # The replay may have failed while it waited.
            replay = self._replays.get(number)
            return replay is not None and replay.can_read

        effects: list[Effect] = []
        for number in self._schedule.start_next(may_read):
            replay = self._replays[number]
            replay.is_reading = True
            effects.append(ReadPage(number, replay.job, replay.number, replay.next_event))
        return effects

    def page_read(self, page: ReadPage, chunks: Sequence[bytes], events: int) -> list[Effect]:
        """Send a page of `events` events, at least one."""
        effects: list[Effect] = []
        replay = self._jobs.get(page.job, {}).get(page.number)
        if replay is not None:
            replay.is_reading = False
            replay.credit -= 1
            replay.next_event = page.first + events
            message = messages.Page(replay.id, page.first, tuple(chunks))
            effects += [Send(message), *self._schedule_page(replay)]
        return effects + self._release_page()

    def page_failed(self, page: ReadPage, error: BrokerError) -> list[Effect]:
        replay = self._jobs.get(page.job, {}).get(page.number)
        effects = [] if replay is None else self._fail(replay, error.to_wire())
        return effects + self._release_page()

    def _release_page(self) -> list[Effect]:
        self._schedule.finish_read()
        return self._read_next_pages()

    # ---------------------------------------------------------------- the end

    def _fail(self, replay: ReplayEntry, error: WireError) -> list[Effect]:
        return [*self._forget(replay), Send(messages.Failed(replay.id, error))]

    def _forget(self, replay: ReplayEntry) -> list[Effect]:
        del self._replays[replay.id]
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
