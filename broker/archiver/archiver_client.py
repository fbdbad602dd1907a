"""The node's side of the archiver: questions to the process, and its reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.archiver import messages
from broker.archiver.maintenance_rules import NO_MAINTENANCE, MaintenanceRules
from broker.child.supervisor import ChildSupervisor
from broker.dtd.reference import DtdReference
from broker.event.place import Mark
from broker.private_files import PRIVATE_UMASK
from broker.recovery.archive_access import ArchivedDurable, Coverage
from broker.transport.backoff import Backoff
from broker.transport.open_requests import OpenRequests

#: Seconds until a restart, at first and at most.
MIN_RESTART_DELAY = 1.0
MAX_RESTART_DELAY = 60.0
#: Seconds until the coverage counts as unknown.
COVERAGE_TIMEOUT = 10.0
#: Seconds until a DTD counts as unknown, and open requests above which it does.
DTD_TIMEOUT = 3.0
MAX_DTD_REQUESTS = 64
#: A further open request counts as unknown.
MAX_DURABLE_REQUESTS = 10_000

_MAINTENANCE_COUNTERS = ("merged", "removed", "deleted")


class ArchiverClient:
    log = Logger()

    def __init__(
        self,
        reactor: Any,
        *,
        log_folder: Path,
        uri: str,
        every: float,
        maintenance: MaintenanceRules = NO_MAINTENANCE,
        umask: int = PRIVATE_UMASK,
    ) -> None:
        """`every` is seconds between flushes, `umask` that of the archiver."""
        self._clock: IReactorTime = reactor
        self._child = ChildSupervisor[messages.Message](
            reactor,
            [
                *("broker.archiver", "--log", str(log_folder), "--archive", uri),
                *("--every", str(every), "--maintenance", maintenance.encode()),
                *("--umask", str(umask)),
            ],
            messages.CODEC,
            on_message=self._message_received,
            on_ended=self._process_ended,
            on_output=lambda text: self.log.warn("archiver: {text}", text=text),
            on_started=self._process_started,
            backoff=Backoff(MIN_RESTART_DELAY, MAX_RESTART_DELAY, jitter=False),
        )
        self.uri = uri
        self.dtd_text: Callable[[DtdReference, str], Deferred[bytes | None]] = lambda *_: succeed(
            None
        )
        """For events of an origin; None if the DTD is unknown."""
        self.on_reached: Callable[[Mapping[str, Mark]], object] = lambda _: None
        """Called with `reached` after each report."""
        self._dead_origins: tuple[str, ...] = ()
        self._last_number = 0
        self.reached: Mapping[str, Mark] = {}
        """End of the archived events, by origin."""
        self.problem = ""
        self.counters: Mapping[str, int] = {}
        self.restarts = 0
        self._durable_requests = OpenRequests[int, ArchivedDurable](reactor, MAX_DURABLE_REQUESTS)
        self._coverage_answers: list[Deferred[Coverage]] = []
        self._dtd_requests = OpenRequests[int, bytes](reactor, MAX_DTD_REQUESTS)
        self._coverage_timeout: IDelayedCall | None = None

    @property
    def is_running(self) -> bool:
        return self._child.is_running

    def start(self) -> None:
        self._child.start()

    def flush_soon(self) -> None:
        """Archive durable events without waiting for the next interval."""
        self._child.send(messages.Flush())

    def get_coverage(self, after: Mapping[str, Mark]) -> Deferred[Coverage]:
        """Return the coverage after these marks; empty if it is unknown now."""
        answer: Deferred[Coverage] = Deferred()
        answer.addCallback(lambda covered: _coverage_after(covered, after))
        if not self.is_running:
            answer.callback(Coverage())
            return answer
        # Clients may return together. One question answers all.
        self._coverage_answers.append(answer)
        if len(self._coverage_answers) == 1:
            self._child.send(messages.AskCoverage())
            self._coverage_timeout = self._clock.callLater(
                COVERAGE_TIMEOUT, self._answer_coverage, Coverage()
            )
        return answer

    def find_durable(self, client_id: str, name: str) -> Deferred[ArchivedDurable | None]:
        """Return None if there is none, or it is unknown now."""
        if not self.is_running or self._durable_requests.is_full:
            return succeed(None)
        self._last_number += 1
        self._child.send(messages.AskDurable(self._last_number, client_id, name))
        return self._durable_requests.add(self._last_number)

    def find_dtd(self, reference: DtdReference) -> Deferred[bytes | None]:
        """Return None if there is none, or the answer took too long."""
        if not self.is_running or self._dtd_requests.is_full:
            return succeed(None)
        self._last_number += 1
        self._child.send(messages.AskDtd(self._last_number, attrs.astuple(reference)))
        return self._dtd_requests.add(self._last_number, DTD_TIMEOUT)

    def set_dead_origins(self, origins: Iterable[str]) -> None:
        """Archive the replicas of these origins."""
        dead = tuple(sorted(origins))
        if dead != self._dead_origins:
            self._dead_origins = dead
            self._child.send(messages.DeadOrigins(dead))

    def stop(self) -> Deferred[None]:
        """Archive the rest of the log, then end the process."""
        return self._child.stop(messages.End())

    # ------------------------------------------------------------------ from the process

    def _process_started(self) -> None:
        if self._dead_origins:
            self._child.send(messages.DeadOrigins(self._dead_origins))

    def _message_received(self, message: messages.Message) -> None:
        match message:
            case messages.AskDtds(dtds, origin):
                for dtd in dtds:
                    text = self.dtd_text(DtdReference(*dtd), origin)
                    text.addBoth(self._send_dtd, dtd, origin)
            case messages.FoundDurable(number, durable):
                self._durable_requests.settle(number, durable)
            case messages.FoundDtd(number, found):
                self._dtd_requests.settle(number, found)
            case messages.FoundCoverage(coverage):
                self._answer_coverage(coverage)
            case messages.Report():
                self._handle_report(message)

    def _handle_report(self, message: messages.Report) -> None:
        if message.figures:
            if not self.counters:
                self.log.info("events are archived in {uri}", uri=self.uri)
            self._child.report_success()
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

    def _process_ended(self, reason: str, was_stopped: bool) -> None:
        self.counters = {}
        self._answer_coverage(Coverage())
        self._dtd_requests.settle_all()
        self._durable_requests.settle_all()
        if not was_stopped:
            self.problem = f"the archiver has ended: {reason}"
            self.log.error("{problem}; it is restarted", problem=self.problem)
            self.restarts += 1

    def _answer_coverage(self, covered: Coverage) -> None:
        if self._coverage_timeout is not None and self._coverage_timeout.active():
            self._coverage_timeout.cancel()
        answers, self._coverage_answers = self._coverage_answers, []
        for answer in answers:
            answer.callback(covered)

    def _send_dtd(self, text: bytes | None | Failure, dtd: messages.WireDtd, origin: str) -> None:
        known = text if isinstance(text, bytes) else None
        self._child.send(messages.DtdAnswer(dtd, known, origin))


def _coverage_after(covered: Coverage, after: Mapping[str, Mark]) -> Coverage:
    found = {
        origin: [each for each in covered.intervals[origin] if each[1] > mark]
        for origin, mark in after.items()
        if origin in covered.intervals
    }
    others = frozenset(covered.intervals.keys() - after.keys())
    ends = {o: end for o, end in covered.lost_ends.items() if end > after.get(o, end)}
    return attrs.evolve(covered, intervals=found, other_origins=others, lost_ends=ends)
