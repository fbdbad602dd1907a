"""What waits to be matched of the events of other nodes: ranges, in the order of their origin."""

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

    arrived: ReceivedRange
    carried: Sequence[FrameEvent]
    on_matched: Callable[[IngestJob], None]
    on_failed: Callable[[IngestJob], None] = lambda _: None
    """Called instead where it could not be matched at all."""
    verdicts: list[Verdict] = attrs.field(factory=list)
    missing_types: Mapping[DtdReference, BrokerError] = attrs.field(factory=dict)
    """Types that could not be had, and why."""
    can_split: bool = False
    """Whether what is matched is done with in the turn in which it is."""
    on_late: Callable[[], None] = lambda: None
    """Called where it waits for long."""

    undecided: set[int] = attrs.field(factory=set)
    """Indices of events whose DTD is not here yet."""
    placeholders: Mapping[int, bytes] = attrs.field(factory=dict)
    """Placeholders of refused events, by index."""

    def split(self) -> IngestJob:
        """Keep what is matched, and leave the rest to another job, which is returned."""
        count = len(self.verdicts)
        whole, end = self.arrived.range, self.carried[count - 1].mark
        rest = attrs.evolve(
            self,
            arrived=attrs.evolve(
                self.arrived, range=whole._replace(after=end, unavailable_upto=None)
            ),
            carried=self.carried[count:],
            verdicts=[],
            undecided=set(),
        )
        self.arrived = attrs.evolve(self.arrived, range=whole._replace(upto=end))
        self.carried = self.carried[:count]
        return rest

    @property
    def retry_error(self) -> OurError | None:
        """Why a type could not be looked up now that an event may have: it may come again later."""
        missing = (
            self.missing_types[verdict.reference]
            for verdict in self.verdicts
            if isinstance(verdict, TypeMissing)
        )
        return next((error for error in missing if isinstance(error, OurError)), None)

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        if not self.carried:
            return len(self.arrived.frame.body)
        return sum([len(each.document) for each in self.carried])


@attrs.define(eq=False)
class OriginQueue:
    """What waits of one origin."""

    jobs: deque[IngestJob] = attrs.field(factory=deque)
    is_paused: bool = False
    """Whether it waits for a DTD."""
    is_queued: bool = False
    """Whether it is among those that are ready."""
    missing_types: dict[DtdReference, BrokerError] = attrs.field(factory=dict)

    @property
    def skippable_types(self) -> frozenset[DtdReference]:
        """Types without which events go on. Of those that could not be looked up they do not."""
        return frozenset(
            each for each, error in self.missing_types.items() if not isinstance(error, OurError)
        )
