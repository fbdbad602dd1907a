"""The node's side of the replay process: it starts the process on demand and requests replays."""

from __future__ import annotations

import os
import shutil
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.endpoints import UNIXClientEndpoint, connectProtocol
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.errors import BrokerError, Closed, EngineUnavailable, NotConnected, from_wire
from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent
from broker.recovery.messages import unpack_events
from broker.replay.engine.contract import Report
from broker.replay.replayer_connection import ReplayerConnection
from broker.replay.replayer_messages import (
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
#: Timeout of the connection. The process does not wait for the JVM before it listens.
CONNECT_SECONDS = 60.0
#: Name of the socket in the process's folder.
SOCKET = "replayer.socket"
#: Bytes of an incomplete line of error output that are kept.
MAX_LINE_BYTES = 1 << 20


@attrs.frozen
class ReplayerSettings:
    uri: str
    folder: Path
    """Folder for its socket and spools, used by one node."""
    engine: str
    master: str
    spool_bytes: int
    request_bytes: int
    idle_seconds: float
    """Seconds without replays after which the process is stopped."""


class NodeReplay:
    """See `broker.recovery.archive_access.Replay`."""

    def __init__(self, number: int, request: ReplayRequest, say: Callable[[Message], object]):
        self.number = number
        self.request = request
        self._send = say
        self._pages: deque[list[LoggedEvent]] = deque()
        self._waiting: Deferred[Sequence[LoggedEvent]] | None = None
        self._is_finished = False
        self._error: BrokerError | None = None
        self.report = Report()
        """The report of its job, once the job is over."""
        self.scanned_rows = (0, 0)
        """Rows that the job has scanned, and of how many."""

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
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        if error is not None:
            waiting.errback(error)
        else:
            waiting.callback([])


class ReplayerClient:
    """See `broker.recovery.archive_access.Replays`. One process serves all replays of a node."""

    _log = Logger()

    def __init__(self, reactor: Any, settings: ReplayerSettings) -> None:
        self._reactor = reactor
        self._settings = settings
        self._last_number = 0
        self.replays: dict[int, NodeReplay] = {}
        self._unsent: list[Message] = []
        self._connection: ReplayerConnection | None = None
        self._process: _ReplayerProtocol | None = None
        self._was_connected = False
        """False if the current process failed before it accepted a connection."""
        self._idle_timer: IDelayedCall | None = None
        self._stopped: Deferred[None] | None = None
        self.notices: deque[str] = deque(maxlen=20)
        self.status: Mapping[str, Any] = {}
        """The process's last `State`: jobs, replays by state, the engine."""
        self.started_processes = 0

    def start_replay(self, request: ReplayRequest) -> NodeReplay:
        """Start a replay, and the process if it does not run."""
        self._last_number += 1
        replay = self.replays[self._last_number] = NodeReplay(
            self._last_number, request, self._send
        )
        self._reset_idle_timer()
        self._send(AskReplay(replay.number, request.to_wire()))
        self._send(More(replay.number, PAGES_IN_ADVANCE))
        if self._process is None:
            try:
                self._spawn()
            except OSError as error:
                # The disk is full, or there are too many processes.
                self._fail_all(EngineUnavailable(f"the replay process cannot be started: {error}"))
        return replay

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def request_status(self) -> None:
        """Request the process's state, if it runs. It arrives in `status`."""
        if self._connection is not None:
            self._send(Status())

    def stop(self) -> Deferred[None]:
        self._reset_idle_timer()
        if self._process is None:
            return succeed(None)
        self._stopped = Deferred()
        self._process.close_stdin()
        return self._stopped

    # ------------------------------------------------------------------ the process

    def _spawn(self) -> None:
        settings = self._settings
        settings.folder.mkdir(parents=True, exist_ok=True)
        protocol = _ReplayerProtocol(self)
        arguments = [
            *(sys.executable, "-m", "broker.replay.replayer", "--attached"),
            *("--archive", settings.uri, "--socket", SOCKET, "--spool", "spool"),
            *("--engine", settings.engine, "--master", settings.master),
            *("--spool-bytes", str(settings.spool_bytes)),
            *("--request-bytes", str(settings.request_bytes)),
        ]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._reactor.spawnProcess(
            protocol, sys.executable, arguments, env=environment, path=str(settings.folder)
        )
        self._process = protocol
        self.started_processes += 1
        self._log.info("replay process started")

    def connect(self) -> None:
        # The path of a socket has at most 107 bytes, however long the node's folder is.
        folder = os.open(self._settings.folder, os.O_PATH | os.O_DIRECTORY)
        socket = f"/proc/self/fd/{folder}/{SOCKET}"
        connection = ReplayerConnection(self._message_received, self._connection_lost)
        connecting = connectProtocol(
            UNIXClientEndpoint(self._reactor, socket, CONNECT_SECONDS), connection
        )
        connecting.addBoth(_close_descriptor(folder))
        connecting.addCallbacks(self._connected, self._connection_failed)

    def _connected(self, connection: ReplayerConnection) -> None:
        self._connection = connection
        self._was_connected = True
        unsent, self._unsent = self._unsent, []
        for message in unsent:
            connection.send(message)

    def _connection_failed(self, failure: Failure) -> None:
        self._log.error("connection to the replay process failed: {why}", why=failure.value)
        if self._process is not None:
            self._process.kill()

    def process_ended(self, reason: str) -> None:
        self._process = None
        error_type = NotConnected if self._was_connected else EngineUnavailable
        self._was_connected = False
        stopped, self._stopped = self._stopped, None
        shutil.rmtree(self._settings.folder / "spool", ignore_errors=True)
        if self.replays and stopped is None:
            self._log.warn("replay process ended: {reason}", reason=reason)
        self._fail_all(error_type(f"the replay process ended: {reason}"))
        if stopped is not None:
            stopped.callback(None)

    def log_error_line(self, text: str) -> None:
        self._log.info("replayer: {text}", text=text)

    # ------------------------------------------------------------------ messages

    def _send(self, message: Message) -> None:
        if self._connection is None:
            self._unsent.append(message)
        else:
            self._connection.send(message)

    def _message_received(self, _: ReplayerConnection, message: Message) -> None:
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
            case Page():
                try:
                    replay.add_page(unpack_events(message.chunks))
                except BrokerError as error:
                    self._finish(replay, error)
            case Done():
                self._send(Cancel(replay.number))
                self._finish(replay)
            case Failed():
                self._finish(replay, from_wire(message.error))

    def _connection_lost(self, connection: ReplayerConnection, error: BrokerError | None) -> None:
        if self._connection is connection:
            self._connection = None
            self._fail_all(error or NotConnected("the connection to the replay process was lost"))
            if self._process is not None:
                self._process.kill()

    def _finish(self, replay: NodeReplay, error: BrokerError | None = None) -> None:
        self.replays.pop(replay.number, None)
        replay.finish(error)
        self._reset_idle_timer()

    def _fail_all(self, error: BrokerError) -> None:
        self._unsent.clear()
        replays, self.replays = self.replays, {}
        for replay in replays.values():
            replay.finish(error)

    def _reset_idle_timer(self) -> None:
        """Cancel the idle timer; start it if there is no replay."""
        if self._idle_timer is not None and self._idle_timer.active():
            self._idle_timer.cancel()
        self._idle_timer = None
        if not self.replays and self._process is not None and self._stopped is None:
            self._idle_timer = self._reactor.callLater(
                self._settings.idle_seconds, self._process.close_stdin
            )


def _close_descriptor(descriptor: int) -> Callable[[Any], Any]:
    def close(result: Any) -> Any:
        os.close(descriptor)
        return result

    return close


class _ReplayerProtocol(ProcessProtocol):
    def __init__(self, process: ReplayerClient) -> None:
        self._client = process
        self._output = self._error_output = b""

    def outReceived(self, data: bytes) -> None:
        self._output += data
        if self._output.endswith(b"ready\n"):
            self._output = b""
            self._client.connect()

    def errReceived(self, data: bytes) -> None:
        *complete, self._error_output = (self._error_output + data)[-MAX_LINE_BYTES:].split(b"\n")
        for line in complete:
            self._client.log_error_line(line.decode(errors="replace"))

    def processEnded(self, reason: Failure) -> None:
        self.transport = None
        self._client.process_ended(reason.getErrorMessage())

    def close_stdin(self) -> None:
        if self.transport is not None:
            self.transport.closeStdin()

    def kill(self) -> None:
        if self.transport is not None:
            self.transport.signalProcess("KILL")
