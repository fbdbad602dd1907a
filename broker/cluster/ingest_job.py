"""Jobs of relay ingest: ranges of other nodes' events, queued per origin."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

import attrs

from broker.cluster.traffic.frame import FrameEvent
from broker.cluster.traffic.received_range import ReceivedRange
from broker.dtd.reference import DtdReference
from broker.errors import BrokerError, OurError
from broker.matching.contract import TypeMissing, Verdict


@attrs.define(eq=False)
class IngestJob:
    """The events of one range."""

    received_range: ReceivedRange
    events: Sequence[FrameEvent]
    on_matched: Callable[[IngestJob], None]
    on_failed: Callable[[IngestJob], None] = lambda _: None
    """Called instead of `on_matched` when matching failed."""
    verdicts: list[Verdict] = attrs.field(factory=list)
    missing_types: Mapping[DtdReference, BrokerError] = attrs.field(factory=dict)
    """Types without a DTD, with the error of the look-up."""
    can_split: bool = False
    """The matched events can be finished before the rest."""
    on_late: Callable[[], None] = lambda: None
    """Called when the job has to wait for long."""

    undecided: set[int] = attrs.field(factory=set)
    """Indices of events whose DTD is not here yet."""
    placeholders: Mapping[int, bytes] = attrs.field(factory=dict)
    """For refused events, by index."""

    def split(self) -> IngestJob:
        """Keep the matched events; return a new job with the rest."""
        count = len(self.verdicts)
        whole, end = self.received_range.range, self.events[count - 1].mark
        rest = attrs.evolve(
            self,
            received_range=attrs.evolve(
                self.received_range, range=whole._replace(after=end, unavailable_upto=None)
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
        """A temporary error of a look-up: the range may come again later."""
        missing = (
            self.missing_types[verdict.reference]
            for verdict in self.verdicts
            if isinstance(verdict, TypeMissing)
        )
        return next((error for error in missing if isinstance(error, OurError)), None)

    @property
    def size(self) -> int:
        if not self.events:
            return len(self.received_range.frame.body)
        return sum([len(each.document) for each in self.events])


@attrs.define(eq=False)
class OriginQueue:
    """Jobs of one origin."""

    jobs: deque[IngestJob] = attrs.field(factory=deque)
    is_paused: bool = False
    """Waiting for a DTD or an announcement."""
    is_queued: bool = False
    """In the list of ready queues."""
    missing_types: dict[DtdReference, BrokerError] = attrs.field(factory=dict)

    @property
    def skippable_types(self) -> frozenset[DtdReference]:
        """Missing types that do not stop their events; a temporary error does."""
        return frozenset(
            each for each, error in self.missing_types.items() if not isinstance(error, OurError)
        )
