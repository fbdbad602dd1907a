"""The replay process without its sockets, threads and files: requests become jobs, and spools
become pages (X8, X16, Q3).

| a replay is | until | then |
|---|---|---|
| waiting | no job runs, and no more come for `GATHERING` | in a job, with all that wait |
| in a job | the job is over | ready; or failed, and forgotten |
| ready | its last event is sent | sent |
| sent | it is cancelled | forgotten |

A page is sent when the node has asked for one (`More`), and read when it is to be sent: replays
take turns, and no more is read than the connection takes. When the connection breaks, replays stay
for `LEASE`; `Resume` takes one over. `Cancel` forgets it in any state. When the last replay of a
job is forgotten its folder goes, or the job is stopped.
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
from broker.recovery.page_schedule import PageTurns
from broker.replay import replayer_messages as messages
from broker.replay.engine.contract import Report
from broker.replay.replayer_effects import (
    CancelJob,
    Drop,
    Effect,
    ForgetRequest,
    ReadPage,
    RemoveJob,
    Send,
    StartJob,
)
from broker.replay.replays import (
    GATHERING,
    LEASE,
    LONGEST_GATHERING,
    Replay,
    ReplayerLimits,
    State,
)
from broker.replay.request import ReplayRequest


class ReplayerCore:
    """See above. Each method returns what is to be done; `next_timeout` may have changed then."""

    def __init__(self, limits: ReplayerLimits) -> None:
        self._limits = limits
        self._replays: dict[int, Replay] = {}
        self._orphans: dict[int, float] = {}
        """When they are forgotten, by id: replays without a connection."""
        self._held = 0
        self._turns: dict[int, PageTurns] = {}
        """By connection, of those that pages were asked for over."""
        self._jobs: dict[int, dict[int, Replay]] = {}
        self._running: int | None = None
        self._begin: float | None = None
        self._latest = 0.0
        self._last_job = 0
        self._failures = 0

    # ---------------------------------------------------------------- connections

    def disconnected(self, link: int, now: float) -> None:
        """A connection is gone, whose number is not used again; its replays stay for a while."""
        self._turns.pop(link, None)
        for replay in self._replays.values():
            if replay.link == link:
                replay.link = None
                replay.credit = 0
                self._orphans[replay.id] = now + LEASE

    def received(self, link: int, message: messages.Message, now: float) -> list[Effect]:
        """A message came over a connection."""
        match message:
            case messages.Replay():
                return self._ask(link, message, now)
            case messages.More():
                return self._more(link, message)
            case messages.Cancel():
                replay = self._replays.get(message.id)
                return [] if replay is None else self._forget(replay)
            case messages.Resume():
                return self._resume(link, message)
            case messages.Status():
                return [Send(link, messages.State(dict(self.figures())))]
            case _:
                error = ProtocolError(f"a node does not send {type(message).__name__}")
                return [Drop(link, error)]

    def _ask(self, link: int, message: messages.Replay, now: float) -> list[Effect]:
        if message.id in self._replays:
            return [Drop(link, ProtocolError(f"there is a replay {message.id} already"))]
        try:
            request = ReplayRequest.from_wire(message.request)
            self._check_room()
        except BrokerError as error:
            return [Send(link, messages.Failed(message.id, error.to_wire()))]
        self._replays[message.id] = Replay(message.id, request, link)
        if self._begin is None:
            self._latest = now + LONGEST_GATHERING
        # A thousand clients that come back need a moment to say so: as long as more come it waits.
        self._begin = min(now + GATHERING, self._latest)
        return [Send(link, messages.Accepted(message.id))]

    def _check_room(self) -> None:
        if len(self._replays) >= self._limits.replays:
            raise Overloaded(f"{len(self._replays)} replays are under way")
        if self._held > self._limits.spool_bytes:
            raise Overloaded(f"replays that were not fetched yet hold {self._held} bytes")

    def _more(self, link: int, message: messages.More) -> list[Effect]:
        replay = self._replays.get(message.id)
        if replay is None or replay.link != link:
            # It may have failed, or gone to another connection, when this was under way.
            return []
        replay.credit = min(replay.credit + message.pages, self._limits.pages)
        return self._read(replay)

    def _resume(self, link: int, message: messages.Resume) -> list[Effect]:
        replay = self._replays.get(message.id)
        if replay is None:
            gone = UnknownSubscription(f"there is no replay {message.id} any more: ask again")
            return [Send(link, messages.Failed(message.id, gone.to_wire()))]
        if replay.sends and message.first > replay.report.events:
            beyond = BadPosition(f"replay {message.id} has {replay.report.events} events")
            return [Send(link, messages.Failed(message.id, beyond.to_wire()))]
        replay.link = link
        self._orphans.pop(replay.id, None)
        replay.credit, replay.reading = 0, False
        replay.turn += 1
        replay.next = message.first
        effects: list[Effect] = [Send(link, messages.Accepted(message.id))]
        if replay.sends:
            replay.state = State.READY
            effects += [Send(link, messages.Found(replay.id, replay.report.to_wire()))]
            effects += self._read(replay)
        return effects

    def full(self, link: int) -> None:
        """A connection takes no more for now; what is sent over it has to wait."""
        self._turns_of(link).full()

    def room(self, link: int) -> list[Effect]:
        """All that was sent over a connection has left."""
        self._turns_of(link).room()
        return self._next_pages(link)

    # ---------------------------------------------------------------- time

    def next_timeout(self) -> float | None:
        """When `handle_timeout` is to be called at the latest."""
        times = list(self._orphans.values())
        if self._begin is not None and self._running is None:
            times.append(self._begin)
        return min(times, default=None)

    def handle_timeout(self, now: float) -> list[Effect]:
        """It is so late now."""
        effects: list[Effect] = []
        for number in [number for number, expires in self._orphans.items() if expires <= now]:
            effects += self._forget(self._replays[number])
        return effects + self._start_job(now)

    # ---------------------------------------------------------------- jobs

    def _start_job(self, now: float) -> list[Effect]:
        if self._running is not None or self._begin is None or self._begin > now:
            return []
        waiting = [each for each in self._replays.values() if each.state is State.WAITING]
        chosen = waiting[: self._limits.requests]
        self._latest = now
        self._begin = now if len(waiting) > len(chosen) else None
        if not chosen:
            return []
        self._last_job += 1
        self._running = self._last_job
        self._jobs[self._running] = dict(enumerate(chosen))
        for number, replay in enumerate(chosen):
            replay.state, replay.job, replay.number = State.IN_JOB, self._running, number
        return [StartJob(self._running, tuple(replay.request for replay in chosen))]

    def job_progress(self, job: int, done: int, of: int) -> list[Effect]:
        """So many of the rows have been looked at."""
        return [
            Send(replay.link, messages.Progress(replay.id, done, of))
            for replay in self._jobs.get(job, {}).values()
            if replay.link is not None
        ]

    def job_done(self, job: int, reports: Sequence[Report], now: float) -> list[Effect]:
        """The job is over; a report for each of its requests."""
        return self._over(job, reports, None, now)

    def job_failed(self, job: int, error: BrokerError, now: float) -> list[Effect]:
        """The whole job could not be done."""
        self._failures += 1
        return self._over(job, (), error.to_wire(), now)

    def _over(
        self, job: int, reports: Sequence[Report], error: WireError | None, now: float
    ) -> list[Effect]:
        self._running = None
        # Where nobody is left to forget it, it goes now.
        effects: list[Effect] = [] if job in self._jobs else [RemoveJob(job)]
        for number, replay in list(self._jobs.get(job, {}).items()):
            report = Report(error=error) if error is not None else reports[number]
            if report.error is not None:
                effects += self._fail(replay, report.error)
            else:
                effects += self._ready(replay, report)
        return effects + self._start_job(now)

    def _ready(self, replay: Replay, report: Report) -> list[Effect]:
        if replay.next > report.events:
            error = BadPosition(f"replay {replay.id} has {report.events} events")
            return self._fail(replay, error.to_wire())
        replay.state, replay.report = State.READY, report
        self._held += report.bytes
        effects: list[Effect] = []
        if replay.link is not None:
            effects.append(Send(replay.link, messages.Found(replay.id, report.to_wire())))
        return effects + self._read(replay)

    # ---------------------------------------------------------------- pages

    def _read(self, replay: Replay) -> list[Effect]:
        """The next page is to be read in its turn, if there is one and it may be sent."""
        if not self._may_be_read(replay):
            return []
        assert replay.link is not None
        if replay.next >= replay.report.events:
            replay.state = State.SENT
            return [Send(replay.link, messages.Done(replay.id))]
        if not replay.credit:
            return []
        self._turns_of(replay.link).ask(replay.id)
        return self._next_pages(replay.link)

    @staticmethod
    def _may_be_read(replay: Replay) -> bool:
        return replay.state is State.READY and replay.link is not None and not replay.reading

    def _turns_of(self, link: int) -> PageTurns:
        return self._turns.setdefault(link, PageTurns())

    def _next_pages(self, link: int) -> list[Effect]:
        def may_read(number: int) -> bool:
            # It may have failed, or gone to another connection, while it waited.
            replay = self._replays.get(number)
            return replay is not None and replay.link == link and self._may_be_read(replay)

        effects: list[Effect] = []
        for number in self._turns_of(link).next(may_read):
            replay = self._replays[number]
            replay.reading = True
            page = ReadPage(number, replay.job, replay.number, replay.next, replay.turn, link)
            effects.append(page)
        return effects

    def page_read(self, page: ReadPage, chunks: Sequence[bytes], events: int) -> list[Effect]:
        """What `ReadPage` wanted: `events` of them, at least one."""
        effects: list[Effect] = []
        replay = self._current(page)
        if replay is not None and replay.link is not None:
            replay.reading = False
            replay.credit -= 1
            replay.next = page.first + events
            message = messages.Page(replay.id, page.first, tuple(chunks))
            effects += [Send(replay.link, message), *self._read(replay)]
        return effects + self._page_is_done(page)

    def page_failed(self, page: ReadPage, error: BrokerError) -> list[Effect]:
        """It could not be read."""
        replay = self._current(page)
        effects = [] if replay is None else self._fail(replay, error.to_wire())
        return effects + self._page_is_done(page)

    def _page_is_done(self, page: ReadPage) -> list[Effect]:
        if page.link not in self._turns:
            return []
        self._turns[page.link].done()
        return self._next_pages(page.link)

    def _current(self, page: ReadPage) -> Replay | None:
        replay = self._replays.get(page.id)
        if replay is None or replay.turn != page.turn or not replay.reading:
            return None
        if replay.link is None:
            # Read for a connection that is gone.
            replay.reading = False
        return replay

    # ---------------------------------------------------------------- the end

    def _fail(self, replay: Replay, error: WireError) -> list[Effect]:
        effects = self._forget(replay)
        if replay.link is not None:
            effects.append(Send(replay.link, messages.Failed(replay.id, error)))
        return effects

    def _forget(self, replay: Replay) -> list[Effect]:
        del self._replays[replay.id]
        self._orphans.pop(replay.id, None)
        self._held -= replay.report.bytes
        if replay.state is State.WAITING:
            return []
        others = self._jobs[replay.job]
        del others[replay.number]
        if others:
            return [ForgetRequest(replay.job, replay.number)]
        del self._jobs[replay.job]
        return [CancelJob(replay.job) if replay.job == self._running else RemoveJob(replay.job)]

    def figures(self) -> Mapping[str, int]:
        """How many replays are in which state, and the like."""
        found = {state.name.lower(): 0 for state in State}
        for replay in self._replays.values():
            found[replay.state.name.lower()] += 1
        return {**found, "bytes": self._held, "jobs": self._last_job, "failed_jobs": self._failures}
