"""Supervisor of a child process of the node."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Generic

from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from broker.child.connection import DESCRIPTOR, ChildConnection
from broker.errors import BrokerError
from broker.transport.backoff import Backoff
from broker.wire.codec import Codec, M

#: Seconds for the last work of a stopped process.
STOP_TIMEOUT: Final = 20.0
#: Kept bytes of an incomplete line of output.
MAX_LINE_BYTES: Final = 1 << 20


class ChildSupervisor(Generic[M]):
    """Starts, restarts and stops a child process, and exchanges messages with it."""

    def __init__(
        self,
        reactor: Any,
        command: Sequence[str],
        codec: Codec[M],
        *,
        on_message: Callable[[M], object],
        on_ended: Callable[[str, bool], object],
        on_output: Callable[[str], object],
        on_started: Callable[[], object] = lambda: None,
        backoff: Backoff | None = None,
        folder: Path | None = None,
    ) -> None:
        """`command` is a module and its options.

        `on_ended` receives the reason, and True if the process was stopped. `on_output` receives
        lines of standard output and error. Without `backoff` only `start` starts a process again.
        `folder` is its working folder.
        """
        self._reactor = reactor
        self._command = [sys.executable, "-m", *command]
        self._codec = codec
        self._on_message = on_message
        self._on_ended = on_ended
        self._on_output = on_output
        self._on_started = on_started
        self._backoff = backoff
        self._folder = folder
        self._process: _ChildProcess | None = None
        self._connection: ChildConnection[M] | None = None
        self._stopped: Deferred[None] | None = None
        self._kill_timer: IDelayedCall | None = None
        self._restart: IDelayedCall | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """None if no process runs."""
        transport = None if self._process is None else self._process.transport
        return None if transport is None else transport.pid

    def start(self) -> None:
        """A failed start is reported like the end of a process."""
        self._process = process = _ChildProcess(self._on_output, self._process_ended)
        self._connection = ChildConnection(
            self._codec, self._on_message, lambda error: self._connection_lost(process, error)
        )
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            if self._folder is not None:
                self._folder.mkdir(parents=True, exist_ok=True)
            ours, theirs = socket.socketpair()
            with ours, theirs:
                self._connection.adopt(self._reactor, ours.fileno())
                self._reactor.spawnProcess(
                    process,
                    *(sys.executable, self._command, environment),
                    None if self._folder is None else str(self._folder),
                    childFDs={DESCRIPTOR: theirs.fileno(), 1: "r", 2: "r"},
                )
        except OSError as error:
            # A lack of processes or files passes.
            self._connection.close()
            self._process_ended(str(error))
            return
        self._on_started()

    def send(self, message: M) -> None:
        """Ignored if no process runs."""
        if self._connection is not None:
            self._connection.send(message)

    def report_success(self) -> None:
        """If the process lasts, the next restart does not wait long."""
        if self._backoff is not None:
            self._backoff.report_up(self._reactor.seconds())

    def stop(self, last: M | None = None) -> Deferred[None]:
        """Send a last message, or close the connection. Fires at the end of the process."""
        if self._restart is not None and self._restart.active():
            self._restart.cancel()
        if self._process is None or self._connection is None:
            return succeed(None)
        if self._stopped is None:
            self._stopped = Deferred()
            self._kill_timer = self._reactor.callLater(STOP_TIMEOUT, self._process.kill)
            if last is None:
                self._connection.close()
            else:
                self.send(last)
        return self._stopped

    def _connection_lost(self, process: _ChildProcess, error: BrokerError | None) -> None:
        if error is not None:
            self._on_output(error.text)
        if self._stopped is None:
            process.kill()
        process.connection_closed()

    def _process_ended(self, reason: str) -> None:
        self._process = self._connection = None
        stopped, self._stopped = self._stopped, None
        if self._kill_timer is not None and self._kill_timer.active():
            self._kill_timer.cancel()
        self._on_ended(reason, stopped is not None)
        if stopped is not None:
            stopped.callback(None)
        elif self._backoff is not None:
            wait = self._backoff.next_wait(self._reactor.seconds())
            self._restart = self._reactor.callLater(wait, self.start)


class _ChildProcess(ProcessProtocol):
    """Ends when the process has exited and its last message is received."""

    def __init__(
        self, on_output: Callable[[str], object], on_ended: Callable[[str], object]
    ) -> None:
        self._on_output = on_output
        self._on_ended = on_ended
        self._received = b""
        self._is_connected = True
        self._reason: str | None = None

    def childDataReceived(self, _descriptor: int, data: bytes) -> None:
        *complete, self._received = (self._received + data)[-MAX_LINE_BYTES:].split(b"\n")
        for line in complete:
            self._on_output(line.decode(errors="replace"))

    def processEnded(self, reason: Failure) -> None:
        self.transport = None
        self._reason = reason.getErrorMessage()
        self._report_end()

    def connection_closed(self) -> None:
        self._is_connected = False
        self._report_end()

    def _report_end(self) -> None:
        if self._reason is not None and not self._is_connected:
            self._on_ended(self._reason)

    def kill(self) -> None:
        if self.transport is not None:
            # The process may have ended although its output is not read to the end.
            with suppress(ProcessExitedAlready):
                self.transport.signalProcess("KILL")
