from __future__ import annotations

from broker.errors import EngineUnavailable
from broker.replay import replayer_messages as messages
from broker.replay.engine.contract import Report
from broker.replay.replay_entry import ReplayerLimits
from broker.replay.replayer_core import ReplayerCore
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

REQUEST = ReplayRequest(">", "true()")
LIMITS = ReplayerLimits()


class Process:
    """The core with simulated threads and files."""

    def __init__(self, limits: ReplayerLimits = LIMITS) -> None:
        self.core = ReplayerCore(limits)
        self.now = 0.0
        self.sent: list[messages.Message] = []
        self.is_dropped = False
        self.job: StartJob | None = None
        self.cancelled = False
        self.pages: list[ReadPage] = []
        self.jobs: dict[int, set[int]] = {}
        self.started: list[StartJob] = []

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(message):
                    self.sent.append(messages.CODEC.decode(messages.CODEC.encode(message)))
                case Drop():
                    self.is_dropped = True
                case StartJob(job, requests):
                    assert self.job is None
                    self.job, self.cancelled = effect, False
                    self.started.append(effect)
                    self.jobs[job] = set(range(len(requests)))
                case CancelJob(job):
                    assert self.job is not None
                    assert self.job.job == job
                    self.cancelled = True
                case ReadPage(_, job, number):
                    assert number in self.jobs[job]
                    self.pages.append(effect)
                case DeleteRequest(job, number):
                    self.jobs[job].remove(number)
                case DeleteJob(job):
                    del self.jobs[job]

    def tell(self, *received: messages.Message) -> None:
        for message in received:
            self.do(self.core.message_received(message, self.now))

    def ask(self, *ids: int) -> None:
        self.tell(*(messages.Replay(id, REQUEST.to_wire()) for id in ids))

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while (at := self.core.next_timeout()) is not None and at <= until:
            self.now = max(self.now, at)
            self.do(self.core.handle_timeout(self.now))
        self.now = until

    def finish(self, *events: int) -> None:
        assert self.job is not None
        job, self.job = self.job.job, None
        reports = [Report(events=count, bytes=count * 100) for count in events]
        self.do(self.core.job_done(job, reports, self.now))

    def fail(self) -> None:
        assert self.job is not None
        job, self.job = self.job.job, None
        self.do(self.core.job_failed(job, EngineUnavailable("it broke"), self.now))

    def read(self, events: int) -> None:
        page = self.pages.pop(0)
        chunks = [b"%d" % number for number in range(page.first, page.first + events)]
        self.do(self.core.page_read(page, chunks, events))

    def take(self) -> list[messages.Message]:
        sent, self.sent = self.sent, []
        return sent
