"""Threads, files and the connection around `ReplayerCore` (X16).

One thread runs jobs and another reads pages.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool

from broker.child.connection import DESCRIPTOR, ChildConnection
from broker.errors import BrokerError, EngineUnavailable, Overloaded
from broker.replay.engine.contract import Engine
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
from broker.replay.replayer_messages import CODEC, Message, Notice, State
from broker.replay.spool import Spool
from broker.transport.core_runner import CoreRunner

#: About one delivery to a client.
PAGE_EVENTS: Final = 512
PAGE_BYTES: Final = 256 * 1024


class ReplayerService:
    """Serves one node. Call `start` first."""

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        engine: Callable[[Callable[[str], object]], Engine],
        folder: Path,
        limits: ReplayerLimits,
        on_lost: Callable[[BrokerError | None], object],
    ) -> None:
        """`engine` is called with a function that takes notices.

        `folder` is for this process alone. Earlier spools in it are deleted.
        """
        self._reactor = reactor
        self._folder = folder
        self._core = ReplayerCore(limits)
        self._engine = engine(lambda text: reactor.callFromThread(self._send_notice, text))
        self._jobs = ThreadPool(1, 1, "replay-jobs")
        self._pages = ThreadPool(1, 1, "replay-pages")
        self._connection = ChildConnection[Message](
            CODEC, self._message_received, on_lost, self._writable_changed
        )
        self._spools: dict[int, Spool] = {}
        self._cancelled: dict[int, threading.Event] = {}
        self._runner: CoreRunner[Effect] = CoreRunner(reactor, self._apply, self._core)

    # ---------------------------------------------------------------- lifecycle

    def start(self) -> Deferred[None]:
        """Fires when the engine is warmed up; requests may arrive earlier."""
        self._connection.adopt(self._reactor, DESCRIPTOR)
        self._folder.mkdir(parents=True, exist_ok=True)
        for old_folder in self._folder.glob("job-*"):
            shutil.rmtree(old_folder)
        self._jobs.start()
        self._pages.start()
        warm = deferToThreadPool(self._reactor, self._jobs, self._engine.warm_up)
        # Jobs report the error to nodes.
        return warm.addErrback(lambda failure: self._send_notice(failure.getErrorMessage()))

    async def stop(self) -> None:
        for event in self._cancelled.values():
            event.set()
        self._connection.close()
        self._runner.stop()
        await deferToThreadPool(self._reactor, self._jobs, self._engine.close)
        for pool in (self._jobs, self._pages):
            pool.stop()
        for spool in self._spools.values():
            spool.delete()

    def _writable_changed(self, writable: bool) -> None:
        if writable:
            self._runner.apply_effects(self._core.resume())
        else:
            self._core.pause()

    def _message_received(self, message: Message) -> None:
        self._runner.call(self._core.message_received, message)

    def _send_notice(self, text: str) -> None:
        self._log.info("{text}", text=text)
        self._connection.send(Notice(text))

    # ---------------------------------------------------------------- effects

    def _apply(self, effect: Effect) -> None:
        match effect:
            case Send(message):
                if isinstance(message, State):
                    message = State({**message.figures, "engine": self._engine.name})
                self._connection.send(message)
            case Drop(error):
                self._log.warn("closed the connection: {error}", error=error)
                self._connection.drop(error)
            case StartJob():
                self._start_job(effect)
            case CancelJob(job):
                self._cancelled[job].set()
            case ReadPage():
                self._read_page(effect)
            case DeleteRequest(job, number):
                self._run_after_pages(partial(self._spools[job].delete_request, number))
            case DeleteJob(job):
                if job in self._spools:
                    self._run_after_pages(self._spools.pop(job).delete)

    def _run_after_pages(self, what: Callable[[], object]) -> None:
        done = deferToThreadPool(self._reactor, self._pages, what)
        done.addErrback(
            lambda failure: self._log.failure("a spool could not be deleted", failure=failure)
        )

    # ---------------------------------------------------------------- jobs

    def _start_job(self, effect: StartJob) -> None:
        job, requests = effect.job, effect.requests
        folder = self._folder / f"job-{job}"
        self._spools[job] = Spool(folder)
        event = self._cancelled[job] = threading.Event()

        def progress(done: int, of: int) -> None:
            self._reactor.callFromThread(self._report_progress, job, done, of)

        def run() -> Any:
            folder.mkdir()
            return self._engine.run(requests, folder, progress, event.is_set)

        running = deferToThreadPool(self._reactor, self._jobs, run)
        running.addCallbacks(
            lambda reports: self._core.job_done(job, reports, self._reactor.seconds()),
            lambda failure: self._core.job_failed(
                job, self._to_broker_error(failure), self._reactor.seconds()
            ),
        )
        running.addBoth(self._finish_job, job)

    def _report_progress(self, job: int, done: int, of: int) -> None:
        self._runner.apply_effects(self._core.job_progress(job, done, of))

    def _finish_job(self, effects: Any, job: int) -> None:
        del self._cancelled[job]
        self._runner.apply_effects(effects)

    def _to_broker_error(self, failure: Failure) -> BrokerError:
        error = failure.value
        if isinstance(error, BrokerError):
            return error
        if isinstance(error, OSError):
            return Overloaded(f"the spool cannot be used: {error}")
        self._log.failure("a replay failed", failure=failure)
        return EngineUnavailable(f"internal error: {failure.getErrorMessage()}")

    # ---------------------------------------------------------------- pages

    def _read_page(self, effect: ReadPage) -> None:
        spool = self._spools[effect.job]
        read = partial(spool.read_page, effect.number, effect.first, PAGE_EVENTS, PAGE_BYTES)
        reading: Deferred[Any] = deferToThreadPool(self._reactor, self._pages, read)
        reading.addCallbacks(
            lambda page: self._core.page_read(effect, *page),
            lambda failure: self._core.page_failed(effect, self._to_broker_error(failure)),
        )
        reading.addCallback(self._runner.apply_effects)
