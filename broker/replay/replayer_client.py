"""The node's side of the replay process: it starts the process on demand and requests replays."""

from __future__ import annotations

import shutil
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from broker.child.supervisor import ChildSupervisor
from broker.errors import (
    BrokerError,
    Closed,
    EngineUnavailable,
    NotConnected,
    Overloaded,
    from_wire,
)
from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent
from broker.recovery.messages import unpack_events
from broker.replay.engine.contract import Report
from broker.replay.replayer_messages import (
    CODEC,
    Cancel,
    Done,
    Failed,
    Found,
    Message,
    More,
    Notice,
    Page,
    Progress,
    State,
    Status,
)
from broker.replay.replayer_messages import Replay as AskReplay
from broker.replay.request import ReplayRequest

#: Pages requested before the first one is consumed.
PAGES_IN_ADVANCE = 2
SPOOL = "spool"
#: One part in so many of the spool is for one account. A single replay may take more.
SPOOL_SHARE = 4


@attrs.frozen
class ReplayerSettings:
    uri: str
    folder: Path
    """For spools of this node alone."""
    engine: str
    master: str
    spool_bytes: int
    request_bytes: int
    idle_seconds: float
    """Without replays, the process is stopped after this time."""


class NodeReplay:
    """See `broker.recovery.archive_access.Replay`."""

    def __init__(
        self,
        number: int,
        request: ReplayRequest,
        send: Callable[[Message], object],
        on_finished: Callable[[int], object],
    ) -> None:
        self.number = number
        self.request = request
        self._send = send
        self._on_finished = on_finished
        self._pages: deque[list[LoggedEvent]] = deque()
        self._waiting: Deferred[Sequence[LoggedEvent]] | None = None
        self._is_finished = False
        self._error: BrokerError | None = None
        self.report = Report()
        """Set once the job is over."""
        self.scanned_rows = (0, 0)
        """Rows that the job has scanned, and their total."""

    def next_events(self) -> Deferred[Sequence[LoggedEvent]]:
        if self._pages:
            self._send(More(self.number, 1))
            return succeed(self._pages.popleft())
        if self._error is not None:
            return fail(self._error)
        if self._is_finished:
            return succeed([])
        self._waiting = Deferred()
        return self._waiting

    def end_marks(self) -> Mapping[str, Mark]:
        return self.report.upto

    def missing_ranges(self) -> Sequence[tuple[str, Mark, Mark]]:
        return self.report.missing_ranges

    def cancel(self) -> None:
        if not self._is_finished:
            self._send(Cancel(self.number))
            self.finish(Closed("the replay was cancelled"))

    def add_page(self, events: list[LoggedEvent]) -> None:
        if self._waiting is None:
            self._pages.append(events)
            return
        self._send(More(self.number, 1))
        waiting, self._waiting = self._waiting, None
        waiting.callback(events)

    def finish(self, error: BrokerError | None = None) -> None:
        if self._is_finished:
            return
        self._is_finished, self._error = True, error
        self._on_finished(self.number)
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        if error is not None:
            waiting.errback(error)
        else:
            waiting.callback([])


class ReplayerClient:
    """See `broker.recovery.archive_access.Replays`. One process serves all replays."""

    _log = Logger()

    def __init__(self, reactor: Any, settings: ReplayerSettings) -> None:
        self._reactor = reactor
        self._settings = settings
        self._last_number = 0
        self.replays: dict[int, NodeReplay] = {}
        self._spooled: Counter[str] = Counter()
        """Bytes of found events by holder of the request."""
        self._child = ChildSupervisor[Message](
            reactor,
            [
                *("broker.replay.replayer", "--archive", settings.uri, "--spool", SPOOL),
                *("--engine", settings.engine, "--master", settings.master),
                *("--spool-bytes", str(settings.spool_bytes)),
                *("--request-bytes", str(settings.request_bytes)),
            ],
            CODEC,
            on_message=self._message_received,
            on_ended=self._process_ended,
            on_output=lambda text: self._log.info("replayer: {text}", text=text),
            on_started=self._process_started,
            folder=settings.folder,
        )
        self._has_answered = False
        """False until the first message of the current process."""
        self._idle_timer: IDelayedCall | None = None
        self.notices: deque[str] = deque(maxlen=20)
        self.status: Mapping[str, Any] = {}
        """The process's last `State`."""
        self.started_processes = 0

    def start_replay(self, request: ReplayRequest) -> NodeReplay:
        """Start a replay, and the process if it does not run."""
        self._last_number += 1
        replay = self.replays[self._last_number] = NodeReplay(
            self._last_number, request, self._child.send, self._replay_finished
        )
        self._reset_idle_timer()
        if not self.is_running:
            self._child.start()
        self._child.send(AskReplay(replay.number, request.to_wire()))
        self._child.send(More(replay.number, PAGES_IN_ADVANCE))
        return replay

    @property
    def is_running(self) -> bool:
        return self._child.is_running

    def request_status(self) -> None:
        """Request the state of a running process; it arrives in `status`."""
        self._child.send(Status())

    def stop(self) -> Deferred[None]:
        return self._child.stop()

    # ------------------------------------------------------------------ from the process

    def _process_started(self) -> None:
        self.started_processes += 1
        self._log.info("replay process started")

    def _process_ended(self, reason: str, was_stopped: bool) -> None:
        # A process that fails at once would fail again.
        error_type = NotConnected if self._has_answered else EngineUnavailable
        self._has_answered = False
        self._reset_idle_timer()
        shutil.rmtree(self._settings.folder / SPOOL, ignore_errors=True)
        if self.replays and not was_stopped:
            self._log.warn("replay process ended: {reason}", reason=reason)
        replays, self.replays = self.replays, {}
        self._spooled.clear()
        for replay in replays.values():
            replay.finish(error_type(f"the replay process ended: {reason}"))

    def _message_received(self, message: Message) -> None:
        self._has_answered = True
        if isinstance(message, Notice):
            if message.text not in self.notices:
                self._log.warn("replayer: {text}", text=message.text)
            self.notices.append(message.text)
            return
        if isinstance(message, State):
            self.status = message.figures
            return
        replay = self.replays.get(getattr(message, "id", 0))
        if replay is None:
            return
        match message:
            case Progress():
                replay.scanned_rows = (message.done, message.of)
            case Found():
                replay.report = Report.from_wire(message.report)
                self._count_spooled(replay)
            case Page():
                try:
                    replay.add_page(unpack_events(message.chunks))
                except BrokerError as error:
                    replay.finish(error)
            case Done():
                self._child.send(Cancel(replay.number))
                replay.finish()
            case Failed():
                replay.finish(from_wire(message.error))

    def _count_spooled(self, replay: NodeReplay) -> None:
        """End the replay if its holder has others, and more than its share with it."""
        holder, before = replay.request.holder, self._spooled[replay.request.holder]
        self._spooled[holder] += replay.report.bytes
        share = self._settings.spool_bytes // SPOOL_SHARE
        if holder and before and self._spooled[holder] > share:
            self._child.send(Cancel(replay.number))
            replay.finish(Overloaded("this account has not fetched its earlier replays yet"))

    def _replay_finished(self, number: int) -> None:
        replay = self.replays.pop(number, None)
        if replay is not None:
            holder = replay.request.holder
            self._spooled[holder] -= replay.report.bytes
            if not self._spooled[holder]:
                del self._spooled[holder]
        self._reset_idle_timer()

    def _reset_idle_timer(self) -> None:
        if self._idle_timer is not None and self._idle_timer.active():
            self._idle_timer.cancel()
        if self.is_running and not self.replays:
            self._idle_timer = self._reactor.callLater(self._settings.idle_seconds, self.stop)
