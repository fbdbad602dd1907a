"""The replay process: its socket, its threads and its files, around `ReplayerCore` (X16).

One thread runs jobs and one reads pages; the reactor only passes messages on. What people should
know (no Java, a JVM that died) is told to every node that is or will be connected.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import Factory
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool

from broker.errors import BrokerError, EngineUnavailable, Overloaded
from broker.replay.engine.contract import Engine
from broker.replay.replayer_core import ReplayerCore
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
from broker.replay.replayer_link import ReplayerLink
from broker.replay.replayer_messages import Message, Notice, State
from broker.replay.replays import ReplayerLimits
from broker.replay.spool import Spool

#: What a page holds at most: a delivery to a client is about as much.
PAGE_EVENTS: Final = 512
PAGE_BYTES: Final = 256 * 1024
#: Notices that are kept for those who connect later.
_NOTICES: Final = 16


class Replayer(Factory):
    """Serves nodes at connections that `buildProtocol` makes; `start` it first."""

    noisy = False
    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        engine: Callable[[Callable[[str], object]], Engine],
        folder: Path,
        limits: ReplayerLimits,
    ) -> None:
        """`engine` is made with what takes its notices. `folder` is for spools, and this process's
        own: what jobs of an earlier one left there goes."""
        self._reactor = reactor
        self._folder = folder
        self._core = ReplayerCore(limits)
        self._engine = engine(lambda text: reactor.callFromThread(self._notice, text))
        self._jobs = ThreadPool(1, 1, "replay-jobs")
        self._pages = ThreadPool(1, 1, "replay-pages")
        self._links: dict[int, ReplayerLink] = {}
        self._numbers: dict[ReplayerLink, int] = {}
        self._last_link = 0
        self._spools: dict[int, Spool] = {}
        self._cancelled: dict[int, threading.Event] = {}
        self._alarm: IDelayedCall | None = None
        self._notices: list[str] = []

    # ---------------------------------------------------------------- life

    def start(self) -> Deferred[None]:
        """Fires when the engine is warm; requests may come before."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for left in self._folder.glob("job-*"):
            shutil.rmtree(left)
        self._jobs.start()
        self._pages.start()
        warm = deferToThreadPool(self._reactor, self._jobs, self._engine.warm)
        # A job will tell whoever asks.
        return warm.addErrback(lambda failure: self._notice(failure.getErrorMessage()))

    async def stop(self) -> None:
        """Whatever runs is cancelled; spools go."""
        for event in self._cancelled.values():
            event.set()
        for link in list(self._numbers):
            link.close()
        if self._alarm is not None and self._alarm.active():
            self._alarm.cancel()
        await deferToThreadPool(self._reactor, self._jobs, self._engine.close)
        for pool in (self._jobs, self._pages):
            pool.stop()
        for spool in self._spools.values():
            spool.remove()

    def buildProtocol(self, _address: object) -> ReplayerLink:
        """Twisted calls it for each connection."""
        return ReplayerLink(self._received, self._lost, self._made, self._writable)

    def _made(self, link: ReplayerLink) -> None:
        self._last_link += 1
        self._links[self._last_link] = link
        self._numbers[link] = self._last_link
        for text in self._notices:
            link.send(Notice(text))

    def _lost(self, link: ReplayerLink, error: BrokerError | None) -> None:
        number = self._numbers.pop(link)
        del self._links[number]
        if error is not None:
            self._log.warn("a node was cut off: {error}", error=error)
        self._core.disconnected(number, self._reactor.seconds())
        self._perform([])

    def _writable(self, link: ReplayerLink, writable: bool) -> None:
        if link not in self._numbers:
            return
        if writable:
            self._perform(self._core.room(self._numbers[link]))
        else:
            self._core.full(self._numbers[link])

    def _received(self, link: ReplayerLink, message: Message) -> None:
        now = self._reactor.seconds()
        self._perform(self._core.received(self._numbers[link], message, now))

    def _notice(self, text: str) -> None:
        self._log.info("{text}", text=text)
        self._notices = [*self._notices, text][-_NOTICES:]
        for link in self._links.values():
            link.send(Notice(text))

    # ---------------------------------------------------------------- effects

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(link, message):
                    if isinstance(message, State):
                        message = State({**message.figures, "engine": self._engine.name})
                    if link in self._links:
                        self._links[link].send(message)
                case Drop(link, error):
                    self._links[link].drop(error)
                case StartJob():
                    self._start_job(effect)
                case CancelJob(job):
                    self._cancelled[job].set()
                case ReadPage():
                    self._read_page(effect)
                case ForgetRequest(job, number):
                    self._in_turn(partial(self._spools[job].forget, number))
                case RemoveJob(job):
                    if job in self._spools:
                        self._in_turn(self._spools.pop(job).remove)
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None and self._alarm.active():
            self._alarm.cancel()
        deadline = self._core.next_timeout()
        if deadline is not None:
            delay = max(0.0, deadline - self._reactor.seconds())
            self._alarm = self._reactor.callLater(delay, self._time_is_up)

    def _time_is_up(self) -> None:
        self._perform(self._core.handle_timeout(self._reactor.seconds()))

    def _in_turn(self, what: Callable[[], object]) -> None:
        """Behind the pages that are being read."""
        done = deferToThreadPool(self._reactor, self._pages, what)
        done.addErrback(lambda failure: self._log.failure("a spool stays", failure=failure))

    # ---------------------------------------------------------------- jobs

    def _start_job(self, effect: StartJob) -> None:
        job, requests = effect.job, effect.requests
        folder = self._folder / f"job-{job}"
        self._spools[job] = Spool(folder)
        event = self._cancelled[job] = threading.Event()

        def progress(done: int, of: int) -> None:
            self._reactor.callFromThread(self._progressed, job, done, of)

        def run() -> Any:
            folder.mkdir()
            return self._engine.run(requests, folder, progress, event.is_set)

        running = deferToThreadPool(self._reactor, self._jobs, run)
        running.addCallbacks(
            lambda reports: self._core.job_done(job, reports, self._reactor.seconds()),
            lambda failure: self._core.job_failed(
                job, self._error(failure), self._reactor.seconds()
            ),
        )
        running.addBoth(self._job_is_over, job)

    def _progressed(self, job: int, done: int, of: int) -> None:
        self._perform(self._core.job_progress(job, done, of))

    def _job_is_over(self, effects: Any, job: int) -> None:
        del self._cancelled[job]
        self._perform(effects)

    def _error(self, failure: Failure) -> BrokerError:
        error = failure.value
        if isinstance(error, BrokerError):
            return error
        if isinstance(error, OSError):
            return Overloaded(f"the spool can not be used: {error}")
        self._log.failure("a replay failed", failure=failure)
        return EngineUnavailable(f"an error of the program: {failure.getErrorMessage()}")

    # ---------------------------------------------------------------- pages

    def _read_page(self, effect: ReadPage) -> None:
        spool = self._spools[effect.job]
        read = partial(spool.page, effect.number, effect.first, PAGE_EVENTS, PAGE_BYTES)
        reading: Deferred[Any] = deferToThreadPool(self._reactor, self._pages, read)
        reading.addCallbacks(
            lambda page: self._core.page_read(effect, *page),
            lambda failure: self._core.page_failed(effect, self._error(failure)),
        )
        reading.addCallback(self._perform)
