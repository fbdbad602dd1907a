"""Ingest of relayed events: matching, validation and logging."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.cluster.address import Address
from broker.cluster.ingest_job import IngestJob, OriginQueue
from broker.cluster.known_verdicts import KnownVerdicts
from broker.cluster.relay_outcomes import RelayOutcomes
from broker.cluster.relayed_entry import build_entries
from broker.cluster.relayed_types import RelayedTypes
from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.received_range import ReceivedRange
from broker.errors import BrokerError, LogUnavailable, ProtocolError
from broker.event.gap_reason import LOST, RETENTION
from broker.event.place import Mark
from broker.event.placeholder import make_placeholder, placeholder_code
from broker.ingest.claimed_validation import match_as_validated
from broker.ingest.quarantine import Quarantine
from broker.ingest.unvalidated_events import UnvalidatedEvents
from broker.log.event_log import EventLog
from broker.log.logged_event import LoggedEvent
from broker.log.pending_commit import RelayedEvents
from broker.matching.contract import Accepted, IMatcher, Refused, TypeMissing, Variants, Verdict
from broker.matching.undescribed import without_dtds
from broker.sessions.time_slices import MAX_DOCUMENTS, SLICE_SECONDS, TimeSlices
from broker.streams.contract import CarriedEvent
from broker.streams.dropped_count import DroppedCount
from broker.transport.clock import IClock

#: Bytes; further ranges are requested again from their origin node.
MOST_WAITING_BYTES = 32 << 20
#: Gets the origin, the marks before and of the last dropped event, and the counts.
ReportDropped: TypeAlias = Callable[[str, Mark, Mark | None, Sequence[DroppedCount]], None]
#: The queue of all ordered flows; no origin has this name.
ORDERED_FLOWS = "/"


class RelayIngest:
    """Logs ranges for this node, and matches ranges that enter its units.

    Work is done in time slices, in order per origin. An origin that waits for a DTD does not delay
    others. Ranges are logged under the places of their origin. All ordered flows share one queue:
    they are logged in the order in which their transports deliver them.
    """

    log = Logger()

    def __init__(
        self,
        *,
        matcher: IMatcher,
        event_log: EventLog,
        quarantine: Quarantine,
        clock: IClock,
        wall_clock: Callable[[], int],
        on_committed: Callable[[list[LoggedEvent], Sequence[tuple[int, ...]]], None],
        report_gap: Callable[[str, Mark, Mark, str], None],
        report_dropped: ReportDropped,
        variants: Callable[[str, Address], Variants],
        types: RelayedTypes,
        unvalidated_events: UnvalidatedEvents,
        reread_from_log: Callable[[int, Collection[str]], object],
        has_local_match: Callable[[tuple[int, ...]], bool],
    ) -> None:
        """`on_committed` gets durable events with their local matches. Before that, `report_gap`
        gets a range (after, upto] of an origin that will not come, and `report_dropped`
        one from which a queue policy dropped events. `variants` returns texts of
        an origin that differ from those in force here. `reread_from_log` gets the serial from
        which subscriptions to streams must read the log."""
        self._matcher = matcher
        self._event_log = event_log
        self._quarantine = quarantine
        self._wall_clock = wall_clock
        self._on_committed = on_committed
        self._report_gap = report_gap
        self._report_dropped = report_dropped
        self._variants = variants
        self._types = types
        self._unvalidated_events = unvalidated_events
        self._reread_from_log = reread_from_log
        self._has_local_match = has_local_match
        self._queues: dict[str, OriginQueue] = {}
        self._ready: deque[str] = deque()
        self._slices = TimeSlices(clock, self._step, self._slice_failed)
        self._failures: Counter[str] = Counter()
        self.waiting_bytes = 0
        self.last_pass: KnownVerdicts | None = None
        """Verdicts on events that are logged next: a transport has matched them for its links."""
        self.outcomes = RelayOutcomes()

    def is_overloaded(self) -> bool:
        """True if the queue is half full, or the log is unavailable."""
        try:
            self._event_log.check_available()
        except LogUnavailable:
            return True
        return 2 * self.waiting_bytes > MOST_WAITING_BYTES

    def log_range(
        self,
        received: ReceivedRange,
        cursor: Mark,
        settled: Callable[[BrokerError | None], None],
    ) -> None:
        """`settled` is called when the events after `cursor` are durable, or with an error."""
        try:
            events = received.frame.events_for(received.index)
        except ProtocolError as error:
            settled(error)
            return
        if events and events[0].mark <= cursor:
            events = [each for each in events if each.mark > cursor]
        self.outcomes.received += len(events)
        origin = received.frame.origin
        failures = self._failures[origin]

        def failed(error: BrokerError, count: int) -> None:
            self._failures[origin] += 1
            self.outcomes.not_taken += count
            settled(error)

        def matched(job: IngestJob) -> None:
            if self._failures[origin] != failures:
                # Logging this range would hide the missing one.
                error = LogUnavailable("an earlier range of the origin was not logged")
                failed(error, len(job.events))
            elif retry_error := job.retry_error:
                failed(retry_error, len(job.events))
            else:
                self._append(job, cursor, settled, failed)

        def matching_failed(job: IngestJob) -> None:
            error = LogUnavailable("events of another node could not be matched")
            failed(error, len(job.events))

        known, self.last_pass = self.last_pass, None
        job = IngestJob(received, events, matched, matching_failed, can_split=True)
        if known is not None and known.flow == origin:
            job.known = known
        if not self.add_job(job):
            failed(LogUnavailable("the queue for events of other nodes is full"), len(events))

    def report_start(self, origin: str, mark: Mark) -> None:
        """Report the start as a gap: clients may come from nodes with earlier events."""
        self._report_gap(origin, (0, 0), mark, LOST)

    def validate_frame(self, frame: Frame, checked: Callable[[Frame], None]) -> None:
        """Validate a transit frame (K28); placeholders replace invalid events.

        A full queue drops the frame, and receivers find its ranges missing.
        """

        def matched(job: IngestJob) -> None:
            if job.retry_error:
                return
            checked(frame.replace_documents(self._replace_invalid(job)))

        try:
            events = frame.events_at(range(frame.event_count))
        except ProtocolError as error:
            self.log.warn("malformed frame of {origin}: {e}", origin=frame.origin, e=error)
            return
        self.add_job(IngestJob(ReceivedRange(frame.ranges[0], frame, 0), events, matched))

    def match_range(
        self,
        received: ReceivedRange,
        matched: Callable[[IngestJob], None],
        on_late: Callable[[], None],
    ) -> None:
        """Match a range that enters a unit.

        If that takes long or is impossible, `on_late` is called; the range is then missing inside.
        """
        try:
            events = received.frame.events_for(received.index)
        except ProtocolError as error:
            self.log.warn("malformed frame of {origin}: {e}", origin=received.frame.origin, e=error)
            on_late()
            return

        def done(job: IngestJob) -> None:
            if job.retry_error:
                # The event may be valid: nodes inside request the missing range later.
                on_late()
                return
            job.placeholders = self._replace_invalid(job)
            matched(job)

        if not self.add_job(
            IngestJob(received, events, done, lambda _: on_late(), on_late=on_late)
        ):
            on_late()

    def wait_for_earlier(self, frame: Frame, on_late: Callable[[], None]) -> None:
        """Call `on_late` once all earlier jobs of the origin are matched or late."""
        queue = self._queues.get(self._queue_of(frame.origin))
        job = IngestJob(
            ReceivedRange(frame.ranges[0], frame, 0), (), lambda _: on_late(), on_late=on_late
        )
        if queue is None or queue.is_paused or not self.add_job(job):
            on_late()

    def add_job(self, job: IngestJob) -> bool:
        """Queue a job behind those of its origin; return False if the queue is full."""
        size = job.size
        if self.waiting_bytes and self.waiting_bytes + size > MOST_WAITING_BYTES:
            return False
        self.waiting_bytes += size
        origin = self._queue_of(job.received_range.frame.origin)
        queue = self._queues.get(origin)
        if queue is None:
            queue = self._queues[origin] = OriginQueue(lambda: self._resume(origin))
        queue.jobs.append(job)
        job.missing_types = queue.missing_types
        if queue.is_paused:
            job.on_late()
        self._make_ready(origin, queue)
        self._slices.run()
        return True

    def _queue_of(self, flow: str) -> str:
        return ORDERED_FLOWS if self._event_log.flows.is_ordered(flow) else flow

    def _resume(self, origin: str) -> None:
        queue = self._queues.get(origin)
        if queue is not None:
            self._make_ready(origin, queue)
        self._slices.run_later()

    def _make_ready(self, origin: str, queue: OriginQueue) -> None:
        if queue.jobs and not queue.is_paused and not queue.is_queued:
            queue.is_queued = True
            self._ready.append(origin)

    def _step(self) -> bool:
        if self._ready:
            origin = self._ready.popleft()
            queue = self._queues[origin]
            queue.is_queued = False
            try:
                matched = self._match_slice(queue)
            except Exception:
                # An event that crashes the matcher must not block other origins.
                self.log.failure("events of {origin} could not be matched", origin=origin)
                job = self._pop_job(queue)
                job.on_failed(job)
                matched = False
            if matched:
                self._finish_job(self._pop_job(queue))
            elif queue.jobs and queue.jobs[0].can_split and queue.jobs[0].verdicts:
                # A subscription added before the rest is matched gets the rest, and none of these.
                rest = queue.jobs[0].split()
                job = self._pop_job(queue)
                queue.jobs.appendleft(rest)
                self._finish_job(job)
            self._make_ready(origin, queue)
            if not queue.jobs:
                del self._queues[origin]
        return bool(self._ready)

    def _finish_job(self, job: IngestJob) -> None:
        try:
            job.on_matched(job)
        except Exception:
            self.log.failure(
                "ingest of matched events of {origin} failed",
                origin=job.received_range.frame.origin,
            )
            job.on_failed(job)

    def _pop_job(self, queue: OriginQueue) -> IngestJob:
        job = queue.jobs.popleft()
        self.waiting_bytes -= job.size
        return job

    def _match_slice(self, queue: OriginQueue) -> bool:
        job = queue.jobs[0]
        rest = job.events[len(job.verdicts) : len(job.verdicts) + MAX_DOCUMENTS]
        if rest:
            frame = job.received_range.frame
            variants = self._variants(frame.origin, frame.origin_node)
            skippable = queue.skippable_types
            without_dtd = without_dtds(skippable, variants)
            seconds = min(self._slices.seconds_left, SLICE_SECONDS)
            known = None
            if job.known is not None and not variants:
                known = job.known.find(self._matcher.last_number, rest)
            verdicts = known or match_as_validated(self._matcher, rest, seconds, without_dtd)
            if self._types.must_wait(queue, frame, rest, verdicts):
                return False
            for index in self._types.find_undecided(rest, verdicts, skippable, variants):
                job.undecided.add(len(job.verdicts) + index)
            job.verdicts += verdicts
        return len(job.verdicts) == len(job.events)

    def _slice_failed(self, error: Exception) -> None:
        self.log.failure("an event of another node failed", Failure(error))

    def _append(
        self,
        job: IngestJob,
        cursor: Mark,
        settled: Callable[[BrokerError | None], None],
        failed: Callable[[BrokerError, int], None],
    ) -> None:
        range_, frame = job.received_range.range, job.received_range.frame
        unavailable_upto = range_.unavailable_upto
        if unavailable_upto is not None and unavailable_upto <= cursor:
            unavailable_upto = None
        begins = not self._event_log.has_origin(frame.origin)
        try:
            self._event_log.check_available()
        except LogUnavailable as error:
            failed(error, len(job.events))
            return
        deduplication = None if job.received_range.is_copy else self._event_log.deduplication
        accepted = [each.header.event_id for each in job.verdicts if isinstance(each, Accepted)]
        for publisher in {(each.client_id, each.incarnation) for each in accepted}:
            # Recorded numbers must be logged, so all windows are loaded first.
            self._event_log.deduplication.next_number(publisher)
        gathered = build_entries(
            job,
            range_,
            deduplication,
            self._wall_clock(),
            self._has_local_match,
            lambda each, verdict: self._refusal_code(each, verdict, job),
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
            if range_.dropped and unavailable_upto == range_.unavailable_upto:
                self._report_dropped(frame.origin, cursor, unavailable_upto, range_.dropped)
            elif unavailable_upto is not None:
                reason = job.received_range.loss_reason or RETENTION
                self._report_gap(frame.origin, cursor, unavailable_upto, reason)
            elif begins:
                self.report_start(frame.origin, range_.after)
            if events:
                if gathered.streams:
                    self._reread_from_log(events[0].serial, gathered.streams)
                self._on_committed(events, gathered.matches)
            settled(None)

        if waiting := gathered.undecided:
            self._unvalidated_events.add_range(frame.origin, waiting[0], waiting[-1], len(waiting))
        self._event_log.append_relayed(
            RelayedEvents(
                frame.origin,
                unavailable_upto or range_.after,
                range_.upto,
                gathered.entries,
                unavailable_upto,
            ),
            done,
        )

    def _replace_invalid(self, job: IngestJob) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for index, (each, verdict) in enumerate(zip(job.events, job.verdicts, strict=True)):
            if not isinstance(verdict, Accepted):
                code = self._refusal_code(each, verdict, job)
                self.outcomes.turned_away[code] += 1
                found[index] = make_placeholder(code, each.document)
        return found

    def _refusal_code(self, each: CarriedEvent, verdict: Verdict, job: IngestJob) -> str:
        if isinstance(verdict, Refused):
            error: BrokerError = verdict.error
            code = placeholder_code(each.document)
            if code is not None:
                return code
        else:
            assert isinstance(verdict, TypeMissing)
            error = job.missing_types[verdict.reference]
        self._quarantine.add_document(
            each.document, error, job.received_range.frame.origin_node.node
        )
        return error.code
