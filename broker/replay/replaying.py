"""The node's side of the replay process: started when it is needed, kept warm, asked for events."""

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
from broker.log.records import LoggedEvent
from broker.recovery.messages import unpack_events
from broker.replay.engine.contract import Report
from broker.replay.replayer_link import ReplayerLink
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

#: Pages that are on their way before the first of them was taken.
AHEAD = 2
#: Seconds that the process has to begin: a JVM and Spark's session are not waited for.
BEGINNING = 60.0
#: Its socket, in its folder.
SOCKET = "replayer.socket"
#: What it may write without the end of a line.
MOST_LINE = 1 << 20


@attrs.frozen
class ReplaySettings:
    """How the process is started."""

    uri: str
    folder: Path
    """For its socket and spools: of this node alone."""
    engine: str
    master: str
    spool_bytes: int
    request_bytes: int
    idle: float
    """Seconds after which a process that nobody asks is ended."""


class NodeReplay:
    """See `broker.recovery.archive_access.Replay`."""

    def __init__(self, number: int, request: ReplayRequest, say: Callable[[Message], object]):
        self.number = number
        self.request = request
        self._say = say
        self._pages: deque[list[LoggedEvent]] = deque()
        self._waiting: Deferred[Sequence[LoggedEvent]] | None = None
        self._is_over = False
        self._error: BrokerError | None = None
        self.report = Report()
        """What its job came to, once it is over."""
        self.looked_at = (0, 0)
        """Rows of the archive that the job has looked at, and of how many."""

    def more(self) -> Deferred[Sequence[LoggedEvent]]:
        """See `Replay`."""
        if self._pages:
            self._say(More(self.number, 1))
            return succeed(self._pages.popleft())
        if self._error is not None:
            return fail(self._error)
        if self._is_over:
            return succeed([])
        self._waiting = Deferred()
        return self._waiting

    def reached(self) -> Mapping[str, Mark]:
        """See `Replay`."""
        return self.report.upto

    def holes(self) -> Sequence[tuple[str, Mark, Mark]]:
        """See `Replay`."""
        return self.report.holes

    def cancel(self) -> None:
        """See `Replay`."""
        if not self._is_over:
            self._say(Cancel(self.number))
            self.end(Closed("the replay was cancelled"))

    def page(self, events: list[LoggedEvent]) -> None:
        """The next events."""
        if self._waiting is None:
            self._pages.append(events)
            return
        self._say(More(self.number, 1))
        waiting, self._waiting = self._waiting, None
        waiting.callback(events)

    def end(self, error: BrokerError | None = None) -> None:
        """There are no more; or they can not be had."""
        if self._is_over:
            return
        self._is_over, self._error = True, error
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        if error is not None:
            waiting.errback(error)
        else:
            waiting.callback([])


class ReplayProcess:
    """See `broker.recovery.archive_access.Replays`; one process serves all replays of a node."""

    log = Logger()

    def __init__(self, reactor: Any, settings: ReplaySettings) -> None:
        self._reactor = reactor
        self._settings = settings
        self._number = 0
        self.replays: dict[int, NodeReplay] = {}
        self._unsaid: list[Message] = []
        self._link: ReplayerLink | None = None
        self._running: _Running | None = None
        self._was_connected = False
        """Whether the process that runs took a connection: else it did not even begin."""
        self._idle: IDelayedCall | None = None
        self._stopped: Deferred[None] | None = None
        self.notices: deque[str] = deque(maxlen=20)
        self.state: Mapping[str, Any] = {}
        """What the process said last of itself: jobs, replays by state, the engine."""
        self.begun = 0
        """Processes since the start."""

    def replay(self, request: ReplayRequest) -> NodeReplay:
        """Begin one; the process is started if it does not run."""
        self._number += 1
        replay = self.replays[self._number] = NodeReplay(self._number, request, self._say)
        self._keep()
        self._say(AskReplay(replay.number, request.to_wire()))
        self._say(More(replay.number, AHEAD))
        if self._running is None:
            try:
                self._start()
            except OSError as error:
                # A full disk, or too many processes.
                self._give_up(EngineUnavailable(f"the replay process can not be started: {error}"))
        return replay

    @property
    def runs(self) -> bool:
        """Whether there is a process now."""
        return self._running is not None

    def look(self) -> None:
        """Ask the process how it is, if it runs: the answer is `state`."""
        if self._link is not None:
            self._say(Status())

    def stop(self) -> Deferred[None]:
        """End the process."""
        self._keep()
        if self._running is None:
            return succeed(None)
        self._stopped = Deferred()
        self._running.end()
        return self._stopped

    # ------------------------------------------------------------------ the process

    def _start(self) -> None:
        said = self._settings
        said.folder.mkdir(parents=True, exist_ok=True)
        running = _Running(self)
        arguments = [
            *(sys.executable, "-m", "broker.replay.replayer", "--attached"),
            *("--archive", said.uri, "--socket", SOCKET, "--spool", "spool"),
            *("--engine", said.engine, "--master", said.master),
            *("--spool-bytes", str(said.spool_bytes)),
            *("--request-bytes", str(said.request_bytes)),
        ]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._reactor.spawnProcess(
            running, sys.executable, arguments, env=environment, path=str(said.folder)
        )
        self._running = running
        self.begun += 1
        self.log.info("the replay process is started")

    def ready(self) -> None:
        """The process can be connected to."""
        # The path of a socket has 107 bytes at most, wherever the node's folder is.
        folder = os.open(self._settings.folder, os.O_PATH | os.O_DIRECTORY)
        socket = f"/proc/self/fd/{folder}/{SOCKET}"
        link = ReplayerLink(self._received, self._lost)
        connecting = connectProtocol(UNIXClientEndpoint(self._reactor, socket, BEGINNING), link)
        connecting.addBoth(_closing(folder))
        connecting.addCallbacks(self._connected, self._not_connected)

    def _connected(self, link: ReplayerLink) -> None:
        self._link = link
        self._was_connected = True
        unsaid, self._unsaid = self._unsaid, []
        for message in unsaid:
            link.send(message)

    def _not_connected(self, failure: Failure) -> None:
        self.log.error("the replay process takes no connection: {why}", why=failure.value)
        if self._running is not None:
            self._running.kill()

    def ended(self, reason: str) -> None:
        """The process is over."""
        self._running = None
        kind = NotConnected if self._was_connected else EngineUnavailable
        self._was_connected = False
        stopped, self._stopped = self._stopped, None
        shutil.rmtree(self._settings.folder / "spool", ignore_errors=True)
        if self.replays and stopped is None:
            self.log.warn("the replay process has ended: {reason}", reason=reason)
        self._give_up(kind(f"the replay process has ended: {reason}"))
        if stopped is not None:
            stopped.callback(None)

    def complained(self, text: str) -> None:
        """What it wrote to its standard error."""
        self.log.info("replayer: {text}", text=text)

    # ------------------------------------------------------------------ messages

    def _say(self, message: Message) -> None:
        if self._link is None:
            self._unsaid.append(message)
        else:
            self._link.send(message)

    def _received(self, _: ReplayerLink, message: Message) -> None:
        if isinstance(message, Notice):
            if message.text not in self.notices:
                self.log.warn("replayer: {text}", text=message.text)
            self.notices.append(message.text)
            return
        if isinstance(message, State):
            self.state = message.figures
            return
        replay = self.replays.get(getattr(message, "id", 0))
        if replay is None:
            return
        match message:
            case Progress():
                replay.looked_at = (message.done, message.of)
            case Found():
                replay.report = Report.from_wire(message.report)
            case Page():
                try:
                    replay.page(unpack_events(message.chunks))
                except BrokerError as error:
                    self._end(replay, error)
            case Done():
                self._say(Cancel(replay.number))
                self._end(replay)
            case Failed():
                self._end(replay, from_wire(message.error))

    def _lost(self, link: ReplayerLink, error: BrokerError | None) -> None:
        if self._link is link:
            self._link = None
            self._give_up(error or NotConnected("the connection to the replay process is lost"))
            if self._running is not None:
                self._running.kill()

    def _end(self, replay: NodeReplay, error: BrokerError | None = None) -> None:
        self.replays.pop(replay.number, None)
        replay.end(error)
        self._keep()

    def _give_up(self, error: BrokerError) -> None:
        self._unsaid.clear()
        replays, self.replays = self.replays, {}
        for replay in replays.values():
            replay.end(error)

    def _keep(self) -> None:
        """The process is wanted; or from now on nobody wants it."""
        if self._idle is not None and self._idle.active():
            self._idle.cancel()
        self._idle = None
        if not self.replays and self._running is not None and self._stopped is None:
            self._idle = self._reactor.callLater(self._settings.idle, self._running.end)


def _closing(descriptor: int) -> Callable[[Any], Any]:
    def close(result: Any) -> Any:
        os.close(descriptor)
        return result

    return close


class _Running(ProcessProtocol):
    def __init__(self, process: ReplayProcess) -> None:
        self._process = process
        self._told = self._complaint = b""

    def outReceived(self, data: bytes) -> None:
        self._told += data
        if self._told.endswith(b"ready\n"):
            self._told = b""
            self._process.ready()

    def errReceived(self, data: bytes) -> None:
        *complete, self._complaint = (self._complaint + data)[-MOST_LINE:].split(b"\n")
        for line in complete:
            self._process.complained(line.decode(errors="replace"))

    def processEnded(self, reason: Failure) -> None:
        self.transport = None
        self._process.ended(reason.getErrorMessage())

    def end(self) -> None:
        """Nobody wants it any more."""
        if self.transport is not None:
            self.transport.closeStdin()

    def kill(self) -> None:
        """It does not do what it is to do."""
        if self.transport is not None:
            self.transport.signalProcess("KILL")
