"""One subscription of a run, over all processes of its client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import attrs

from broker.event.place import Mark
from broker.testing.guarantees.records import Delivered, End, EventKey, Kind, Published, ReportedGap


@attrs.define(eq=False)
class Process:
    number: int
    first_cut: Mapping[str, Mark] | None = None
    """Later places of these origins must come. None if not observed."""
    flowing_at: float | None = None
    end: End = End.RUNNING
    items: list[Delivered | ReportedGap] = attrs.field(factory=list)
    """In the order of the user's view."""
    error: str = ""
    may_repeat: bool = False
    """True if a warning said that it continues from a possibly old position."""

    def record_flow(self, cut: Mapping[str, Mark] | None, at: float = 0.0) -> None:
        """Record the first cut; without one, events published from now on must come."""
        self.first_cut, self.flowing_at = cut if cut is None else dict(cut), at

    @property
    def deliveries(self) -> Iterator[Delivered]:
        return (item for item in self.items if isinstance(item, Delivered))

    @property
    def gaps(self) -> Iterator[ReportedGap]:
        return (item for item in self.items if isinstance(item, ReportedGap))


@attrs.define(eq=False)
class Subscriber:
    """`matches` is the query.

    Each process of a transient subscription is a `Subscriber` of its own.
    """

    name: str
    matches: Callable[[Published], bool]
    kind: Kind = Kind.DURABLE
    clearance: int = 2
    processes: list[Process] = attrs.field(factory=list)

    def add_process(self) -> Process:
        made = Process(len(self.processes) + 1)
        self.processes.append(made)
        return made

    @property
    def first_flow(self) -> Process | None:
        return next((each for each in self.processes if each.flowing_at is not None), None)

    def may_read(self, event: Published) -> bool:
        return event.level <= self.clearance

    @property
    def deliveries(self) -> Iterator[Delivered]:
        return (each for process in self.processes for each in process.deliveries)

    @property
    def gaps(self) -> Iterator[ReportedGap]:
        return (each for process in self.processes for each in process.gaps)

    @property
    def handled(self) -> set[EventKey]:
        """Events that a process has finished with."""
        return {each.key for each in self.deliveries if each.handled}
