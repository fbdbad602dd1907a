"""What waits to be matched of the events of other nodes: ranges, in the order of their origin."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

import attrs

from broker.cluster.traffic.frame import Carried
from broker.cluster.traffic.received_range import Arrived
from broker.dtd.reference import DtdReference
from broker.errors import BrokerError, OurError
from broker.matching.contract import TypeMissing, Verdict


@attrs.define(eq=False)
class Job:
    """The events of one range."""

    arrived: Arrived
    carried: Sequence[Carried]
    done: Callable[[Job], None]
    broken: Callable[[Job], None] = lambda _: None
    """Called instead where it could not be matched at all."""
    verdicts: list[Verdict] = attrs.field(factory=list)
    missing: Mapping[DtdReference, BrokerError] = attrs.field(factory=dict)
    """Types that could not be had, and why."""
    splits: bool = False
    """Whether what is matched is done with in the turn in which it is."""
    late: Callable[[], None] = lambda: None
    """Called where it waits for long."""

    undecided: set[int] = attrs.field(factory=set)
    """Indices of events whose DTD is not here yet."""
    refused: Mapping[int, bytes] = attrs.field(factory=dict)
    """Placeholders of refused events, by index."""

    def split(self) -> Job:
        """Keep what is matched, and leave the rest to another job, which is returned."""
        count = len(self.verdicts)
        told, end = self.arrived.range, self.carried[count - 1].mark
        rest = attrs.evolve(
            self,
            arrived=attrs.evolve(self.arrived, range=told._replace(after=end, gone=None)),
            carried=self.carried[count:],
            verdicts=[],
            undecided=set(),
        )
        self.arrived = attrs.evolve(self.arrived, range=told._replace(upto=end))
        self.carried = self.carried[:count]
        return rest

    @property
    def busy(self) -> OurError | None:
        """Why a type could not be looked up now that an event may have: it may come again later."""
        missing = (
            self.missing[verdict.reference]
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
class Line:
    """What waits of one origin."""

    jobs: deque[Job] = attrs.field(factory=deque)
    held: bool = False
    """Whether it waits for a DTD."""
    queued: bool = False
    """Whether it is among those that are ready."""
    missing: dict[DtdReference, BrokerError] = attrs.field(factory=dict)

    @property
    def passed_over(self) -> frozenset[DtdReference]:
        """Types without which events go on. Of those that could not be looked up they do not."""
        return frozenset(
            each for each, error in self.missing.items() if not isinstance(error, OurError)
        )
