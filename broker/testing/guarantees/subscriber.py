"""One subscription of a run, over all processes of its client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import attrs

from broker.event.place import Mark
from broker.testing.guarantees.records import Delivered, End, EventKey, Kind, Published, ReportedGap


@attrs.define(eq=False)
class Process:
    """One process of a subscription's client."""

    number: int
    first_cut: Mapping[str, Mark] | None = None
    """The first cut: later places of these origins must come. None if nobody observed it."""
    flowing_at: float | None = None
    """When it was observed that the flow had begun."""
    end: End = End.RUNNING
    items: list[Delivered | ReportedGap] = attrs.field(factory=list)
    """Deliveries and gaps in the order in which the user saw them."""
    error: str = ""
    """The error that ended the subscription, if one did."""
    may_repeat: bool = False
    """True if a warning told that it goes on from a position that may be old."""

    def record_flow(self, cut: Mapping[str, Mark] | None, at: float = 0.0) -> None:
        """The node reported the first cut; without one, events published from now on must come."""
        self.first_cut, self.flowing_at = cut if cut is None else dict(cut), at

    @property
    def deliveries(self) -> Iterator[Delivered]:
        """Events in order."""
        return (item for item in self.items if isinstance(item, Delivered))

    @property
    def gaps(self) -> Iterator[ReportedGap]:
        """Gaps in order."""
        return (item for item in self.items if isinstance(item, ReportedGap))


@attrs.define(eq=False)
class Subscriber:
    """A subscription, its meaning in Python, and its processes.

    Each process of a transient subscription is a `Subscriber` of its own.
    """

    name: str
    matches: Callable[[Published], bool]
    kind: Kind = Kind.DURABLE
    clearance: int = 2
    processes: list[Process] = attrs.field(factory=list)

    def add_process(self) -> Process:
        """A new process of the client, which begins to subscribe."""
        made = Process(len(self.processes) + 1)
        self.processes.append(made)
        return made

    @property
    def first_flow(self) -> Process | None:
        """The first process whose flow began."""
        return next((each for each in self.processes if each.flowing_at is not None), None)

    def may_read(self, event: Published) -> bool:
        """True if the clearance admits the event."""
        return event.level <= self.clearance

    @property
    def deliveries(self) -> Iterator[Delivered]:
        """Events that any process got, process by process."""
        return (each for process in self.processes for each in process.deliveries)

    @property
    def gaps(self) -> Iterator[ReportedGap]:
        """Gaps that any process got."""
        return (each for process in self.processes for each in process.gaps)

    @property
    def handled(self) -> set[EventKey]:
        """Events that a process has finished with."""
        return {each.key for each in self.deliveries if each.handled}
