"""Late events of a transport: an earlier range covered their places without them.

Their places are passed: behind later events of their flow they would be out of order. From now on
the log begins behind them, so a subscription that reads it recovers them from other logs. A live
one gets them, unless it has got later events of the flow: then it gets a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeAlias

from broker.cluster.address import Address
from broker.cluster.ingest_job import IngestJob
from broker.cluster.relay_ingest import RelayIngest
from broker.cluster.relayed_entry import claimed_header, encode_verified
from broker.cluster.replicas.page_frame import make_local_frame
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.received_range import ReceivedRange
from broker.errors import LogUnavailable
from broker.event.place import Mark
from broker.log.deduplication import Freshness
from broker.log.event_log import EventLog
from broker.log.pending_commit import RelayedEvents
from broker.matching.contract import Accepted
from broker.streams.contract import CarriedEvent, FlowBatch

#: Gets the flow, the event, the numbers of the subscriptions that it matches, and its stream.
#: Without numbers (None) it could not be matched; an empty stream is unknown.
ReportLeftOut: TypeAlias = Callable[[str, CarriedEvent, Collection[int] | None, str], object]


class LeftOutEvents:
    def __init__(
        self,
        relay_ingest: RelayIngest,
        event_log: EventLog,
        position_of: Callable[[str], Mark | None],
        receive_range: Callable[[str, Mark, Mark, Sequence[CarriedEvent], Address], None],
        has_local_match: Callable[[tuple[int, ...]], bool],
        report: ReportLeftOut,
    ) -> None:
        """`position_of` returns the place up to which the node has a flow, `receive_range` is that
        of `FlowExchange`. `report` delivers or recovers an event, or reports a gap."""
        self._relay_ingest = relay_ingest
        self._log = event_log
        self._position_of = position_of
        self._receive_range = receive_range
        self._has_local_match = has_local_match
        self._report = report

    def take(self, batch: FlowBatch, origin_node: Address) -> None:
        """Handle events whose signatures are right.

        Places ahead of the node's position were stated, and not believed: they may still come.
        """
        flow, events = batch.flow, []
        for event in batch.events:
            if event.mark <= (self._position_of(flow) or (0, 0)):
                events.append(event)
            else:
                after = (event.mark[0], event.mark[1] - 1)
                self._receive_range(flow, after, event.mark, (event,), origin_node)
        if not events:
            return
        span = Range(Address((), ""), batch.after, batch.upto)
        frame = make_local_frame(flow, origin_node, span, events)
        job = IngestJob(ReceivedRange(span, frame, 0), events, self._matched, self._matched)
        if not self._relay_ingest.add_job(job):
            # Without room nothing is matched.
            self._matched(job)

    def _matched(self, job: IngestJob) -> None:
        flow = job.received_range.frame.origin
        calls: list[Callable[[], object]] = []
        upto: Mark = (0, 0)
        for index, event in enumerate(job.events):
            verdict = job.verdicts[index] if index < len(job.verdicts) else None
            numbers: Collection[int] | None = None
            if isinstance(verdict, Accepted) and index not in job.undecided:
                numbers, header = verdict.subscriptions, verdict.header
                record = encode_verified(header, event.record)
                event = event._replace(level=header.security_level.rank, record=record)
                event_id = header.event_id
                publisher = event_id.client_id, event_id.incarnation
                freshness = self._log.deduplication.check(publisher, event_id.sequence_number)
                if freshness is Freshness.DUPLICATE or not self._has_local_match(numbers):
                    continue
            upto = event.mark
            calls.append(partial(self._report, flow, event, numbers, claimed_header(event).stream))

        def report(_: object) -> None:
            for call in calls:
                call()

        if not calls:
            return
        self._log.has_left_out = True
        try:
            # Behind the events that are being committed.
            self._log.append_relayed(RelayedEvents(flow, upto, upto, [], upto), report)
        except LogUnavailable:
            report(None)
