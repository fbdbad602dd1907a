"""Events of other nodes on their way into the log, and into the units that begin here.

They are matched in turns, those of each origin in their order: while some wait for a DTD, others of
that origin wait behind them, and those of other origins do not. What is matched is judged and
logged under the places that it has; what enters a unit is matched to be divided among those inside.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence

import attrs
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.cluster.address import Address
from broker.cluster.ingest_job import Job, Line
from broker.cluster.missing_types import MissingTypes
from broker.cluster.relayed_entry import gather
from broker.cluster.traffic.frame import Carried, Frame
from broker.cluster.traffic.received_range import Arrived
from broker.errors import BrokerError, LogUnavailable, ProtocolError
from broker.event.place import Mark
from broker.event.placeholder import placeholder, refusal_code
from broker.ingest.quarantine import Quarantine
from broker.ingest.undecided import UndecidedEvents
from broker.log.event_log import EventLog
from broker.log.gathering import Relayed
from broker.log.records import LoggedEvent
from broker.matching.contract import Accepted, IMatcher, Refused, TypeMissing, Variants, Verdict
from broker.sessions.turns import MOST_DOCUMENTS, SECONDS_A_TURN, Turns
from broker.transport.clock import IClock

#: Bytes of events that wait here; more are not taken, and come again when their home is asked.
MOST_WAITING_BYTES = 32 << 20


@attrs.define
class RelayOutcomes:
    """Of all events of other nodes that came for this one: `received` is the sum of the others."""

    received: int = 0
    logged: int = 0
    unwanted: int = 0
    """Came since all was asked for, and nobody here wants them."""
    duplicate: int = 0
    """Known by their EventId: another origin has given them a place too."""
    not_taken: int = 0
    """The log could not be written, or too much waited: they come again."""
    refused: Counter[str] = attrs.field(factory=Counter)
    """By error code."""
    turned_away: Counter[str] = attrs.field(factory=Counter)
    """By error code: of those that were to pass through here, or to enter a unit, and are none of
    `received`, what goes no further."""


class Intake:
    """Takes ranges for this node, and matches ranges for units that it is in."""

    log = Logger()

    def __init__(
        self,
        *,
        matcher: IMatcher,
        event_log: EventLog,
        quarantine: Quarantine,
        clock: IClock,
        wall_clock: Callable[[], int],
        committed: Callable[[list[LoggedEvent], Sequence[tuple[int, ...]]], None],
        gone: Callable[[str, Mark, Mark, str], None],
        variants: Callable[[str, Address], Variants],
        missing: MissingTypes,
        undecided: UndecidedEvents,
        reconsider: Callable[[int, Collection[str]], object],
        wanted_here: Callable[[tuple[int, ...]], bool],
    ) -> None:
        """`committed` is told durable events with what they match here, and `gone` before that what
        of an origin does not come, behind a mark and up to another: nobody has it any more, or it
        lies before what this node begins with. `variants` gives the texts of an origin that are
        others than those that count here. `undecided` remembers events that wait for their DTD.
        `reconsider` is told from which serial on subscriptions to streams must read the log."""
        self._matcher = matcher
        self._event_log = event_log
        self._quarantine = quarantine
        self._wall_clock = wall_clock
        self._committed = committed
        self._gone = gone
        self._variants = variants
        self._missing = missing
        self._undecided = undecided
        self._reconsider = reconsider
        self._wanted_here = wanted_here
        self._lines: dict[str, Line] = {}
        self._ready: deque[str] = deque()
        self._turns = Turns(clock, self._step, self._turn_failed)
        self._failures: Counter[str] = Counter()
        """By origin: how often something of it could not be logged."""
        self.waiting_bytes = 0
        self.outcomes = RelayOutcomes()

    def is_behind(self) -> bool:
        """Whether half of the room is taken, or nothing can be logged now."""
        try:
            self._event_log.check_available()
        except LogUnavailable:
            return True
        return 2 * self.waiting_bytes > MOST_WAITING_BYTES

    # ------------------------------------------------------------------ what is to be done

    def take(
        self,
        arrived: Arrived,
        cursor: Mark,
        settled: Callable[[BrokerError | None], None],
    ) -> None:
        """Log what lies behind `cursor`; `settled` is told when it is durable, or why not."""
        try:
            chosen = [
                each
                for each in arrived.frame.carried(arrived.frame.wanted(arrived.index))
                if each.mark > cursor
            ]
        except ProtocolError as error:
            settled(error)
            return
        self.outcomes.received += len(chosen)
        origin = arrived.frame.origin
        life = self._failures[origin]

        def failed(error: BrokerError, events: int) -> None:
            self._failures[origin] += 1
            self.outcomes.not_taken += events
            settled(error)

        def matched(job: Job) -> None:
            if self._failures[origin] != life:
                # Taken behind what was not logged: alone it would hide that.
                failed(LogUnavailable("what comes before it was not logged"), len(job.carried))
            elif busy := job.busy:
                failed(busy, len(job.carried))
            else:
                self._append(job, cursor, settled, failed)

        def broken(job: Job) -> None:
            error = LogUnavailable("events of another node could not be matched")
            failed(error, len(job.carried))

        if not self._add(Job(arrived, chosen, matched, broken, splits=True)):
            failed(LogUnavailable("too many events of other nodes wait here"), len(chosen))

    def begins(self, origin: str, mark: Mark) -> None:
        """This node begins with an origin there: its clients may have been elsewhere before."""
        self._gone(origin, (0, 0), mark, "lost")

    def check(self, frame: Frame, checked: Callable[[Frame], None]) -> None:
        """Validate a frame that only passes through (K28). A placeholder with the code goes on in
        the place of an event that is not valid.

        Where there is no room the frame is dropped, and missed.
        """

        def judged(job: Job) -> None:
            if job.busy:
                return
            checked(frame.with_documents(self._turn_away(job)))

        try:
            carried = frame.carried(range(frame.count))
        except ProtocolError as error:
            self.log.warn("a frame of {origin}: {e}", origin=frame.origin, e=error)
            return
        self._add(Job(Arrived(frame.ranges[0], frame, 0), carried, judged))

    def match(
        self, arrived: Arrived, matched: Callable[[Job], None], late: Callable[[], None]
    ) -> None:
        """Match what enters a unit; what there is no room for is left out, and missed.

        `late` is called where it can not be matched, or not soon.
        """
        try:
            carried = arrived.frame.carried(arrived.frame.wanted(arrived.index))
        except ProtocolError as error:
            self.log.warn("a frame of {origin}: {e}", origin=arrived.frame.origin, e=error)
            late()
            return

        def done(job: Job) -> None:
            if job.busy:
                # It may be valid: those inside find a hole, and ask for it later.
                late()
                return
            job.refused = self._turn_away(job)
            matched(job)

        if not self._add(Job(arrived, carried, done, lambda _: late(), late=late)):
            late()

    def follow(self, frame: Frame, late: Callable[[], None]) -> None:
        """Call `late` when all that came of the origin before is matched, or late itself."""
        line = self._lines.get(frame.origin)
        job = Job(Arrived(frame.ranges[0], frame, 0), (), lambda _: late(), late=late)
        if line is None or line.held or not self._add(job):
            late()

    def _add(self, job: Job) -> bool:
        size = job.size
        if self.waiting_bytes and self.waiting_bytes + size > MOST_WAITING_BYTES:
            return False
        self.waiting_bytes += size
        origin = job.arrived.frame.origin
        line = self._lines.setdefault(origin, Line())
        line.jobs.append(job)
        job.missing = line.missing
        if line.held:
            job.late()
        self._queue(origin, line)
        self._turns.work()
        return True

    def _queue(self, origin: str, line: Line) -> None:
        """Let a line that can go on have its turn."""
        if line.jobs and not line.held and not line.queued:
            line.queued = True
            self._ready.append(origin)

    # ------------------------------------------------------------------ turns

    def _step(self) -> bool:
        """Match the next events of the next origin; whether there is more to do."""
        if self._ready:
            origin = self._ready.popleft()
            line = self._lines[origin]
            line.queued = False
            try:
                matched = self._match(line)
            except Exception:
                # One that breaks the matcher must not keep all others from coming.
                self.log.failure("events of {origin} could not be matched", origin=origin)
                job = self._pop(line)
                job.broken(job)
                matched = False
            if matched:
                self._finish(self._pop(line))
            elif line.jobs and line.jobs[0].splits and line.jobs[0].verdicts:
                # Who subscribes before the rest is matched gets all of that, and nothing of this.
                rest = line.jobs[0].split()
                job = self._pop(line)
                line.jobs.appendleft(rest)
                self._finish(job)
            self._queue(origin, line)
            if not line.jobs:
                del self._lines[origin]
        return bool(self._ready)

    def _finish(self, job: Job) -> None:
        try:
            job.done(job)
        except Exception:
            self.log.failure("what was matched of {origin} failed", origin=job.arrived.frame.origin)
            job.broken(job)

    def _pop(self, line: Line) -> Job:
        job = line.jobs.popleft()
        self.waiting_bytes -= job.size
        return job

    def _match(self, line: Line) -> bool:
        """Go on with the first job of a line. Whether it is done."""
        job = line.jobs[0]
        rest = job.carried[len(job.verdicts) : len(job.verdicts) + MOST_DOCUMENTS]
        if rest:
            frame = job.arrived.frame
            variants = self._variants(frame.origin, frame.home)
            undescribed = line.passed_over
            seconds = min(self._turns.left, SECONDS_A_TURN)
            documents = [each.document for each in rest]
            verdicts = self._matcher.match(documents, undescribed, seconds, variants)
            unknown = {
                verdict.reference: verdict.system_id
                for verdict in verdicts
                if isinstance(verdict, TypeMissing) and verdict.reference not in line.missing
            }
            if unknown:
                self._hold(line)
                self._missing.look_for(line, frame, unknown, self._going_on(line, frame))
                return False
            goes_on = self._going_on(line, frame)
            if self._missing.wait_for_announcements(frame, rest, verdicts, goes_on):
                self._hold(line)
                return False
            for index in self._missing.undecided(verdicts, undescribed, variants):
                job.undecided.add(len(job.verdicts) + index)
            job.verdicts += verdicts
        return len(job.verdicts) == len(job.carried)

    def _hold(self, line: Line) -> None:
        line.held = True
        for each in list(line.jobs):
            each.late()

    def _going_on(self, line: Line, frame: Frame) -> Callable[[], None]:
        """What lets a line go on: its types are here, or a moment is over."""

        def go_on() -> None:
            line.held = False
            self._queue(frame.origin, line)
            self._turns.work_later()

        return go_on

    def _turn_failed(self, error: Exception) -> None:
        self.log.failure("an event of another node failed", Failure(error))

    # ------------------------------------------------------------------ into the log

    def _append(
        self,
        job: Job,
        cursor: Mark,
        settled: Callable[[BrokerError | None], None],
        failed: Callable[[BrokerError, int], None],
    ) -> None:
        told, frame = job.arrived.range, job.arrived.frame
        gone = told.gone if told.gone is not None and told.gone > cursor else None
        begins = not self._event_log.covers(frame.origin)
        try:
            self._event_log.check_available()
        except LogUnavailable as error:
            failed(error, len(job.carried))
            return
        accepted = [each.header.event_id for each in job.verdicts if isinstance(each, Accepted)]
        for publisher in {(each.client_id, each.incarnation) for each in accepted}:
            # Read before anything is recorded: what is recorded is logged.
            self._event_log.deduplication.following(publisher)
        gathered = gather(
            job,
            told,
            self._event_log.deduplication,
            self._wall_clock(),
            self._wanted_here,
            lambda each, verdict: self._refusal(each, verdict, job),
        )
        self.outcomes.refused += gathered.refused
        self.outcomes.unwanted += gathered.unwanted
        self.outcomes.duplicate += gathered.duplicate
        refused = gathered.refused.total()

        def done(events: list[LoggedEvent] | BrokerError) -> None:
            if isinstance(events, BrokerError):
                failed(events, len(gathered.entries) - refused)
                return
            self.outcomes.logged += len(events) - refused
            if gone is not None:
                reason = "lost" if job.arrived.lost else "retention"
                self._gone(frame.origin, cursor, gone, reason)
            elif begins:
                self.begins(frame.origin, told.after)
            if events:
                if gathered.streams:
                    self._reconsider(events[0].serial, gathered.streams)
                self._committed(events, gathered.matches)
            settled(None)

        if waiting := gathered.waiting:
            self._undecided.note(frame.origin, waiting[0], waiting[-1], len(waiting))
        self._event_log.append_relayed(
            Relayed(frame.origin, gone or told.after, told.upto, gathered.entries, gone), done
        )

    def _turn_away(self, job: Job) -> dict[int, bytes]:
        """Placeholders, by index, for events that pass through or enter a unit, and are invalid."""
        found: dict[int, bytes] = {}
        for index, (each, verdict) in enumerate(zip(job.carried, job.verdicts, strict=True)):
            if not isinstance(verdict, Accepted):
                code = self._refusal(each, verdict, job)
                self.outcomes.turned_away[code] += 1
                found[index] = placeholder(code)
        return found

    def _refusal(self, each: Carried, verdict: Verdict, job: Job) -> str:
        """The code for which an event is not taken; a person may look at the event."""
        if isinstance(verdict, Refused):
            error: BrokerError = verdict.error
            code = refusal_code(each.document)
            if code is not None:
                return code
        else:
            assert isinstance(verdict, TypeMissing)
            error = job.missing[verdict.reference]
        self._quarantine.keep(each.document, error, job.arrived.frame.home.node)
        return error.code
