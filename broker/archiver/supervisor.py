"""The node's side of the archiver: starts the process, restarts it, and talks to it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import IDelayedCall, IReactorProcess, IReactorTime
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.archiver import protocol
from broker.archiver.maintenance_rules import NO_MAINTENANCE, MaintenanceRules
from broker.dtd.reference import DtdReference
from broker.event.place import Mark
from broker.recovery.archive_access import ArchivedDurable, Coverage
from broker.transport.backoff import Backoff
from broker.transport.open_requests import OpenRequests

#: Seconds until a process that died is restarted, at first and at most.
MIN_RESTART_DELAY = 1.0
MAX_RESTART_DELAY = 60.0
#: Seconds for the last flush when the node stops.
STOP_TIMEOUT = 20.0
#: Seconds until the coverage must be known. A slow store may take longer.
COVERAGE_TIMEOUT = 10.0
#: Most bytes of a line.
MAX_LINE_BYTES = 1 << 20
#: Seconds until a DTD must have come, and the number of open questions for one.
DTD_TIMEOUT = 3.0
MAX_DTD_QUESTIONS = 64

#: Counters of archive maintenance.
_MAINTENANCE_COUNTERS = ("merged", "removed", "deleted")


class ArchiverSupervisor:
    log = Logger()

    def __init__(
        self,
        reactor: Any,
        *,
        log_folder: Path,
        uri: str,
        every: float,
        maintenance: MaintenanceRules = NO_MAINTENANCE,
    ) -> None:
        """`reactor` starts processes and has a clock. `every` is seconds between flushes."""
        self._process: IReactorProcess = reactor
        self._clock: IReactorTime = reactor
        self._arguments = [
            *(sys.executable, "-m", "broker.archiver"),
            *("--log", str(log_folder), "--archive", uri, "--every", str(every)),
            *("--care", maintenance.encode()),
        ]
        self.uri = uri
        self.dtd_text: Callable[[DtdReference, str], Deferred[bytes | None]] = lambda *_: succeed(
            None
        )
        """Returns a DTD of the node for events of an origin; None if it is unknown."""
        self.on_reached: Callable[[Mapping[str, Mark]], object] = lambda _: None
        """Called with `reached` after each report."""
        self._child: _ArchiverProcess | None = None
        self._stopping: Deferred[None] | None = None
        self._backoff = Backoff(MIN_RESTART_DELAY, MAX_RESTART_DELAY, jitter=False)
        self._dead_origins: tuple[str, ...] = ()
        self._last_number = 0
        self._restart: IDelayedCall | None = None
        self.reached: Mapping[str, Mark] = {}
        """By origin, the end of its archived events, from the last report."""
        self.problem = ""
        self.counters: Mapping[str, int] = {}
        self.restarts = 0
        self._durable_requests = OpenRequests[int, ArchivedDurable](reactor)
        self._coverage_answers: list[Deferred[Coverage]] = []
        self._dtd_requests = OpenRequests[int, bytes](reactor, MAX_DTD_QUESTIONS)
        self._coverage_timeout: IDelayedCall | None = None

    @property
    def is_running(self) -> bool:
        return self._child is not None

    def start(self) -> None:
        self._child = _ArchiverProcess(self)
        environment = dict(os.environ)
        try:
            self._process.spawnProcess(
                self._child, sys.executable, self._arguments, env=environment, path=None
            )
        except OSError as error:
            # The system may lack room for a process. That passes.
            self.process_ended(str(error))

    def flush_soon(self) -> None:
        """Archive events that are durable now, without waiting for the next interval."""
        self._last_number += 1
        self._send(protocol.Flush(self._last_number))

    def get_coverage(self, after: Mapping[str, Mark]) -> Deferred[Coverage]:
        """Return the archive's coverage of origins after these marks; empty if it is unknown
        now."""
        answer: Deferred[Coverage] = Deferred()
        answer.addCallback(lambda covered: _coverage_after(covered, after))
        if self._child is None:
            answer.callback(Coverage())
            return answer
        # One question answers all callers, such as clients that came back together.
        self._coverage_answers.append(answer)
        if len(self._coverage_answers) == 1:
            self._send(protocol.ASK_COVERAGE)
            self._coverage_timeout = self._clock.callLater(
                COVERAGE_TIMEOUT, self._answer_coverage, Coverage()
            )
        return answer

    def find_durable(self, client_id: str, name: str) -> Deferred[ArchivedDurable | None]:
        """Find a durable subscription in the archive; None if there is none, or it is unknown
        now."""
        if self._child is None:
            return succeed(None)
        self._last_number += 1
        self._send(protocol.AskDurable(self._last_number, client_id, name))
        return self._durable_requests.add(self._last_number)

    def find_dtd(self, reference: DtdReference) -> Deferred[bytes | None]:
        """Find a DTD in the archive; None if there is none, or the answer took too long."""
        if self._child is None or self._dtd_requests.is_full:
            return succeed(None)
        self._last_number += 1
        self._send(protocol.AskDtd(self._last_number, reference))
        return self._dtd_requests.add(self._last_number, DTD_TIMEOUT)

    def set_dead_origins(self, origins: Iterable[str]) -> None:
        """Archive the replicas of these origins, since their nodes are gone."""
        dead = tuple(sorted(origins))
        if dead != self._dead_origins:
            self._dead_origins = dead
            self._send(protocol.DeadOrigins(dead))

    def stop(self) -> Deferred[None]:
        """Let the process archive the rest of the log, and end it."""
        child = self._child
        if self._restart is not None and self._restart.active():
            self._restart.cancel()
        if child is None or child.transport is None:
            return succeed(None)
        self._send(protocol.End())
        stopping = self._stopping = Deferred()
        timer = self._clock.callLater(STOP_TIMEOUT, child.kill)

        def stopped(result: object) -> object:
            if timer.active():
                timer.cancel()
            return result

        return stopping.addBoth(stopped)

    def _send(self, message: protocol.NodeMessage) -> None:
        child = self._child
        if child is not None and child.transport is not None:
            child.transport.write(protocol.encode_node_message(message))

    # ------------------------------------------------------------------ from the process

    def process_started(self) -> None:
        """Send the state that a new process needs."""
        if self._dead_origins:
            self._send(protocol.DeadOrigins(self._dead_origins))

    def receive_line(self, line: bytes) -> None:
        """Receive a line of the process. Raises `ValueError`."""
        message = protocol.decode_archiver_message(line)
        if isinstance(message, protocol.AskDtds):
            for reference in message.references:
                text = self.dtd_text(reference, message.origin)
                text.addBoth(self._send_dtd, reference, message.origin)
            return
        if isinstance(message, protocol.FoundDurable):
            stored = message.stored
            found = None if stored is None else ArchivedDurable(message.origin, stored)
            self._durable_requests.settle(message.number, found)
            return
        if isinstance(message, protocol.FoundDtd):
            self._dtd_requests.settle(message.number, message.text)
            return
        if isinstance(message, Coverage):
            self._answer_coverage(message)
            return
        if message.figures:
            if not self.counters:
                self.log.info("events are archived in {uri}", uri=self.uri)
            self._backoff.report_up(self._clock.seconds())
            if any(
                message.figures.get(name, 0) != self.counters.get(name, 0)
                for name in _MAINTENANCE_COUNTERS
            ):
                maintenance = {name: message.figures.get(name, 0) for name in _MAINTENANCE_COUNTERS}
                self.log.info(
                    "archive maintenance so far: {merged} files merged, {removed} expired, "
                    "{deleted} deleted",
                    **maintenance,
                )
            self.reached, self.counters = message.reached, message.figures
            self.on_reached(self.reached)
        if message.problem != self.problem:
            # Log a problem once, not after each attempt.
            if message.problem:
                self.log.error("nothing is archived: {problem}", problem=message.problem)
            else:
                self.log.info("the archive can be written again")
        self.problem = message.problem

    def log_error_line(self, text: str) -> None:
        self.log.warn("archiver: {text}", text=text)

    def process_ended(self, reason: str) -> None:
        """Fail open questions, and restart the process unless the node stops."""
        self._child, self.counters = None, {}
        self._answer_coverage(Coverage())
        self._dtd_requests.settle_all()
        self._durable_requests.settle_all()
        if self._stopping is not None:
            stopping, self._stopping = self._stopping, None
            stopping.callback(None)
            return
        self.problem = f"the archiver has ended: {reason}"
        self.log.error("{problem}; it is restarted", problem=self.problem)
        self.restarts += 1
        delay = self._backoff.next_wait(self._clock.seconds())
        self._restart = self._clock.callLater(delay, self.start)

    def _answer_coverage(self, covered: Coverage) -> None:
        if self._coverage_timeout is not None and self._coverage_timeout.active():
            self._coverage_timeout.cancel()
        answers, self._coverage_answers = self._coverage_answers, []
        for answer in answers:
            answer.callback(covered)

    def _send_dtd(self, text: bytes | None | Failure, reference: DtdReference, origin: str) -> None:
        self._send(protocol.DtdAnswer(reference, text if isinstance(text, bytes) else None, origin))


def _coverage_after(covered: Coverage, after: Mapping[str, Mark]) -> Coverage:
    found = {
        origin: [each for each in covered.intervals[origin] if each[1] > mark]
        for origin, mark in after.items()
        if origin in covered.intervals
    }
    others = frozenset(covered.intervals.keys() - after.keys())
    ends = {o: end for o, end in covered.lost_ends.items() if end > after.get(o, end)}
    return attrs.evolve(covered, intervals=found, other_origins=others, lost_ends=ends)


class _ArchiverProcess(ProcessProtocol):
    def __init__(self, supervisor: ArchiverSupervisor) -> None:
        self._supervisor = supervisor
        self._received = self._error_output = b""

    def connectionMade(self) -> None:
        self._supervisor.process_started()

    def outReceived(self, data: bytes) -> None:
        *complete, self._received = (self._received + data).split(b"\n")
        try:
            for line in complete:
                self._supervisor.receive_line(line)
        except ValueError as error:
            self._supervisor.log_error_line(str(error))
            self.kill()
        if len(self._received) > MAX_LINE_BYTES:
            self.kill()

    def errReceived(self, data: bytes) -> None:
        *complete, self._error_output = (self._error_output + data)[-MAX_LINE_BYTES:].split(b"\n")
        for line in complete:
            self._supervisor.log_error_line(line.decode(errors="replace"))

    def processEnded(self, reason: Failure) -> None:
        self.transport = None
        self._supervisor.process_ended(reason.getErrorMessage())

    def kill(self) -> None:
        if self.transport is not None:
            # The process may have ended although its output is not read to the end.
            with suppress(ProcessExitedAlready):
                self.transport.signalProcess("KILL")
