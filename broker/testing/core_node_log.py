"""The event log of a simulated node: a list in which only what was committed survives a crash."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from broker.event.place import Mark


class NumberedEvent(NamedTuple):
    """An event whose content is a number; its document is `<e><k>number</k></e>`."""

    origin: str
    mark: Mark
    number: int
    level: int


class CoreNodeLog:
    """Own events get places without holes; those of other origins keep theirs."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.events: list[NumberedEvent] = []
        """Durable, in the order in which they were committed."""
        self.own_events: list[NumberedEvent] = []
        """Of them those of this node."""
        self.covered: dict[str, Mark] = {origin: (1, 0)}
        self._epoch = 1
        self._next = 1

    @property
    def newest_place(self) -> Mark:
        """The newest place given, durable or not."""
        return (self._epoch, self._next - 1)

    def assign_places(self, numbers: Iterable[tuple[int, int]]) -> list[NumberedEvent]:
        """Give places to events, which are (number, rank of the security level)."""
        placed = []
        for number, level in numbers:
            placed.append(NumberedEvent(self.origin, (self._epoch, self._next), number, level))
            self._next += 1
        return placed

    def commit_own(self, events: list[NumberedEvent]) -> None:
        """They are durable."""
        self.events += events
        self.own_events += events
        self.covered[self.origin] = events[-1].mark

    def commit_relayed(
        self, origin: str, cursor: Mark, upto: Mark, events: list[NumberedEvent]
    ) -> bool:
        """They are durable, and the origin is covered up to `upto`. Not if something before them
        is missing."""
        covered = self.covered.get(origin)
        if covered is not None and cursor > covered:
            return False
        self.events += [each for each in events if covered is None or each.mark > covered]
        self.covered[origin] = upto if covered is None else max(covered, upto)
        return True

    def crash(self) -> None:
        """The process ends: places that were not durable are given again, in a new epoch."""
        self._next = self.covered[self.origin][1] + 1
        self._epoch += 1

    def read_page(self, after: Mark, most: int) -> tuple[list[NumberedEvent], Mark]:
        """The next durable own events behind a mark, and up to where these are all."""
        # Offsets have no holes, but after a crash some were given twice.
        start = min(after[1], len(self.own_events))
        while start and self.own_events[start - 1].mark > after:
            start -= 1
        found = self.own_events[start : start + most]
        if len(found) < most:
            covered = self.covered[self.origin]
            # An epoch may have begun in which nothing is durable yet.
            return found, max(
                after, self.newest_place if self.newest_place[1] == covered[1] else covered
            )
        return found, found[-1].mark
