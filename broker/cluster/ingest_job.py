"""Jobs of relay ingest: ranges of other nodes' events, queued per origin."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

import attrs

from broker.cluster.known_verdicts import KnownVerdicts
from broker.cluster.traffic.received_range import ReceivedRange
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.owner import of_node
from broker.dtd.reference import DtdReference
from broker.errors import BrokerError, OurError
from broker.ingest.event_source import EventSource, find_retry_error
from broker.matching.contract import Verdict
from broker.streams.contract import CarriedEvent


@attrs.define(eq=False)
class IngestJob:
    received_range: ReceivedRange
    events: Sequence[CarriedEvent]
    on_matched: Callable[[IngestJob], None]
    on_failed: Callable[[IngestJob], None] = lambda _: None
    verdicts: list[Verdict] = attrs.field(factory=list)
    missing_types: Mapping[DtdReference, BrokerError] = attrs.field(factory=dict)
    """Each with the error of its look-up."""
    can_split: bool = False
    """The matched events can be finished before the rest."""
    known: KnownVerdicts | None = None
    """Verdicts of the transport that brought the events."""
    on_late: Callable[[], None] = lambda: None
    """Called when the job has to wait for long."""

    undecided: set[int] = attrs.field(factory=set)
    """Events whose DTD is not here yet."""
    placeholders: Mapping[int, bytes] = attrs.field(factory=dict)

    def split(self) -> IngestJob:
        """Keep the matched events; return a new job with the rest."""
        count = len(self.verdicts)
        whole, end = self.received_range.range, self.events[count - 1].mark
        rest = attrs.evolve(
            self,
            received_range=attrs.evolve(
                self.received_range,
                range=whole._replace(after=end, unavailable_upto=None, dropped=()),
            ),
            events=self.events[count:],
            verdicts=[],
            undecided=set(),
        )
        self.received_range = attrs.evolve(self.received_range, range=whole._replace(upto=end))
        self.events = self.events[:count]
        return rest

    @property
    def retry_error(self) -> OurError | None:
        """A temporary error, after which the range may come again."""
        return find_retry_error(self.missing_types, self.verdicts)

    @property
    def size(self) -> int:
        if not self.events:
            return len(self.received_range.frame.body)
        return sum([len(each.document) for each in self.events])


@attrs.define(eq=False)
class OriginQueue(EventSource):
    jobs: deque[IngestJob] = attrs.field(factory=deque)
    is_queued: bool = False

    def fetch_hint(self, system_id: str) -> FetchHint:
        node = self.jobs[0].received_range.frame.origin_node
        return FetchHint(system_id, node, owner=of_node(node.node))

    def pause(self) -> None:
        """Pause; all jobs are late."""
        super().pause()
        for each in list(self.jobs):
            each.on_late()
