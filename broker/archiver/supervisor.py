"""The node's side of its archiver: starts it, tells it what it needs, starts it again."""

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

from broker.archiver import protocol as lines
from broker.archiver.maintenance_rules import NO_CARE, CareRules
from broker.dtd.reference import DtdReference
from broker.event.place import Mark
from broker.recovery.archive_access import ArchivedDurable, Covered
from broker.transport.backoff import Backoff

#: Seconds until an archiver that died is started again, at first and at most.
FIRST_REST = 1.0
LONGEST_REST = 60.0
#: Seconds that it has for its last flush when the node stops.
LAST_FLUSH = 20.0
#: Seconds that it has to say what the archive has; behind a slow store it may be busy for longer.
LONGEST_ANSWER = 10.0
#: What it may write without the end of a line.
MOST_LINE = 1 << 20
#: Seconds that the archiver has to give a DTD, and how many may be asked for at a time.
TEXT_TIMEOUT = 3.0
MOST_TEXTS = 64

#: Figures of the archive's care.
_CARE = ("merged", "removed", "deleted")


class ArchiverSupervisor:
    """One node's archiver."""

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        *,
        log_folder: Path,
        uri: str,
        every: float,
        care: CareRules = NO_CARE,
    ) -> None:
        """`reactor` starts processes and knows the time; `every` is in seconds."""
        self._process: IReactorProcess = reactor
        self._clock: IReactorTime = reactor
        self._arguments = [
            *(sys.executable, "-m", "broker.archiver"),
            *("--log", str(log_folder), "--archive", uri, "--every", str(every)),
            *("--care", care.encode()),
        ]
        self.uri = uri
        self.dtd_text: Callable[[DtdReference, str], Deferred[bytes | None]] = lambda *_: succeed(
            None
        )
        """The text of a DTD; None where it is not known."""
        self.on_reached: Callable[[Mapping[str, Mark]], object] = lambda _: None
        """Called with `reached` at each report of the archiver."""
        self._running: _Running | None = None
        self._stopping: Deferred[None] | None = None
        self._backoff = Backoff(FIRST_REST, LONGEST_REST, jitter=False)
        self._dead: tuple[str, ...] = ()
        self._flush = 0
        self._again: IDelayedCall | None = None
        self.reached: Mapping[str, Mark] = {}
        """By origin up to where the archive has it, as far as this node's archiver knows."""
        self.problem = ""
        """Why nothing is archived at the moment."""
        self.figures: Mapping[str, int] = {}
        self.restarts = 0
        self._sought: dict[int, Deferred[ArchivedDurable | None]] = {}
        self._asking: list[Deferred[Covered]] = []
        self._texts: dict[int, Deferred[bytes | None]] = {}
        self._answer_due: IDelayedCall | None = None

    @property
    def runs(self) -> bool:
        """Whether there is a process now."""
        return self._running is not None

    def start(self) -> None:
        """Start it."""
        self._running = _Running(self)
        environment = dict(os.environ)
        try:
            self._process.spawnProcess(
                self._running, sys.executable, self._arguments, env=environment, path=None
            )
        except OSError as error:
            # No room for one more process, say: that passes.
            self.ended(str(error))

    def flush_soon(self) -> None:
        """What is durable now is to be archived at once, and not when its time comes."""
        self._flush += 1
        self._say(lines.Flush(self._flush))

    def covered(self, after: Mapping[str, Mark]) -> Deferred[Covered]:
        """What the archive has of these origins behind these marks, if it can tell now."""
        answer: Deferred[Covered] = Deferred()
        answer.addCallback(lambda covered: _behind(covered, after))
        if self._running is None:
            answer.callback(Covered())
            return answer
        # However many clients have come back at once: one question for all.
        self._asking.append(answer)
        if len(self._asking) == 1:
            self._say(lines.ASK_COVERED)
            self._answer_due = self._clock.callLater(LONGEST_ANSWER, self._tell_covered, Covered())
        return answer

    def durable(self, client_id: str, name: str) -> Deferred[ArchivedDurable | None]:
        """What the archive has stored of a durable subscription; None: nothing, or it could not
        tell at the moment."""
        self._flush += 1
        answer = self._sought[self._flush] = Deferred()
        self._say(lines.AskDurable(self._flush, client_id, name))
        if self._running is None:
            self._sought.pop(self._flush).callback(None)
        return answer

    def archived_text(self, reference: DtdReference) -> Deferred[bytes | None]:
        """The text of a DTD in the archive; None: it has none, or could not tell in time."""
        self._flush += 1
        number = self._flush
        answer: Deferred[bytes | None] = Deferred()
        if self._running is None or len(self._texts) >= MOST_TEXTS:
            answer.callback(None)
            return answer
        self._texts[number] = answer
        self._say(lines.AskText(number, reference))
        self._clock.callLater(TEXT_TIMEOUT, self._tell_text, number, None)
        return answer

    def _tell_text(self, number: int, text: bytes | None) -> None:
        answer = self._texts.pop(number, None)
        if answer is not None:
            answer.callback(text)

    def set_dead(self, origins: Iterable[str]) -> None:
        """The nodes of these origins are gone: what is kept of them here is to be archived."""
        dead = tuple(sorted(origins))
        if dead != self._dead:
            self._dead = dead
            self._say(lines.Dead(dead))

    def stop(self) -> Deferred[None]:
        """Let it archive what the log has, and end it."""
        running = self._running
        if self._again is not None and self._again.active():
            self._again.cancel()
        if running is None or running.transport is None:
            return succeed(None)
        self._say(lines.End())
        stopping = self._stopping = Deferred()
        timer = self._clock.callLater(LAST_FLUSH, running.kill)

        def stopped(result: object) -> object:
            if timer.active():
                timer.cancel()
            return result

        return stopping.addBoth(stopped)

    def _say(self, said: lines.Said) -> None:
        running = self._running
        if running is not None and running.transport is not None:
            running.transport.write(lines.encode(said))

    # ------------------------------------------------------------------ from the process

    def began(self) -> None:
        """The process runs."""
        if self._dead:
            self._say(lines.Dead(self._dead))

    def told(self, line: bytes) -> None:
        """A line of the process."""
        said = lines.understood(line)
        if isinstance(said, lines.AskDtds):
            for reference in said.references:
                text = self.dtd_text(reference, said.origin)
                text.addBoth(self._tell_dtd, reference, said.origin)
            return
        if isinstance(said, lines.FoundDurable):
            answer = self._sought.pop(said.number, None)
            if answer is not None:
                stored = said.stored
                answer.callback(None if stored is None else ArchivedDurable(said.origin, stored))
            return
        if isinstance(said, lines.FoundText):
            self._tell_text(said.number, said.text)
            return
        if isinstance(said, Covered):
            self._tell_covered(said)
            return
        if said.figures:
            if not self.figures:
                self.log.info("events are archived in {uri}", uri=self.uri)
            self._backoff.up(self._clock.seconds())
            if any(said.figures.get(name, 0) != self.figures.get(name, 0) for name in _CARE):
                care = {name: said.figures.get(name, 0) for name in _CARE}
                self.log.info(
                    "the archive is cared for: {merged} files merged, {removed} too old, "
                    "{deleted} deleted so far",
                    **care,
                )
            self.reached, self.figures = said.reached, said.figures
            self.on_reached(self.reached)
        if said.problem != self.problem:
            # Once, and not with every attempt.
            if said.problem:
                self.log.error("nothing is archived: {problem}", problem=said.problem)
            else:
                self.log.info("the archive can be written again")
        self.problem = said.problem

    def complained(self, text: str) -> None:
        """What it wrote to its standard error."""
        self.log.warn("archiver: {text}", text=text)

    def ended(self, reason: str) -> None:
        """The process is over."""
        self._running, self.figures = None, {}
        self._tell_covered(Covered())
        for number in list(self._texts):
            self._tell_text(number, None)
        sought, self._sought = self._sought, {}
        for answer in sought.values():
            answer.callback(None)
        if self._stopping is not None:
            stopping, self._stopping = self._stopping, None
            stopping.callback(None)
            return
        self.problem = f"the archiver has ended: {reason}"
        self.log.error("{problem}; it is started again", problem=self.problem)
        self.restarts += 1
        rest = self._backoff.next(self._clock.seconds())
        self._again = self._clock.callLater(rest, self.start)

    def _tell_covered(self, covered: Covered) -> None:
        if self._answer_due is not None and self._answer_due.active():
            self._answer_due.cancel()
        asking, self._asking = self._asking, []
        for answer in asking:
            answer.callback(covered)

    def _tell_dtd(self, text: bytes | None | Failure, reference: DtdReference, origin: str) -> None:
        self._say(lines.TellDtd(reference, text if isinstance(text, bytes) else None, origin))


def _behind(covered: Covered, after: Mapping[str, Mark]) -> Covered:
    found = {
        origin: [each for each in covered.intervals[origin] if each[1] > mark]
        for origin, mark in after.items()
        if origin in covered.intervals
    }
    others = frozenset(covered.intervals.keys() - after.keys())
    ends = {o: end for o, end in covered.lost_ends.items() if end > after.get(o, end)}
    return attrs.evolve(covered, intervals=found, others=others, lost_ends=ends)


class _Running(ProcessProtocol):
    """One process of the archiver."""

    def __init__(self, supervisor: ArchiverSupervisor) -> None:
        self._supervisor = supervisor
        self._received = self._complaint = b""

    def connectionMade(self) -> None:
        self._supervisor.began()

    def outReceived(self, data: bytes) -> None:
        *complete, self._received = (self._received + data).split(b"\n")
        try:
            for line in complete:
                self._supervisor.told(line)
        except ValueError as error:
            self._supervisor.complained(str(error))
            self.kill()
        if len(self._received) > MOST_LINE:
            self.kill()

    def errReceived(self, data: bytes) -> None:
        *complete, self._complaint = (self._complaint + data)[-MOST_LINE:].split(b"\n")
        for line in complete:
            self._supervisor.complained(line.decode(errors="replace"))

    def processEnded(self, reason: Failure) -> None:
        self.transport = None
        self._supervisor.ended(reason.getErrorMessage())

    def kill(self) -> None:
        """It does not do what it is to do."""
        if self.transport is not None:
            # It may be over, and only its last words not yet read.
            with suppress(ProcessExitedAlready):
                self.transport.signalProcess("KILL")
