"""Event log of a core node: a list in which only committed events survive a crash."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from broker.event.place import Mark


class NumberedEvent(NamedTuple):
    """Event with the document `<e><k>number</k></e>`."""

    origin: str
    mark: Mark
    number: int
    level: int


class CoreNodeLog:
    """Own events get consecutive places; those of other origins keep theirs."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.events: list[NumberedEvent] = []
        """In order of commit."""
        self.own_events: list[NumberedEvent] = []
        self.covered: dict[str, Mark] = {origin: (1, 0)}
        self._epoch = 1
        self._next = 1

    @property
    def newest_place(self) -> Mark:
        return (self._epoch, self._next - 1)

    def assign_places(self, numbers: Iterable[tuple[int, int]]) -> list[NumberedEvent]:
        """Place events of (number, rank of the security level)."""
        placed = []
        for number, level in numbers:
            placed.append(NumberedEvent(self.origin, (self._epoch, self._next), number, level))
            self._next += 1
        return placed

    def commit_own(self, events: list[NumberedEvent]) -> None:
        self.events += events
        self.own_events += events
        self.covered[self.origin] = events[-1].mark

    def commit_relayed(
        self, origin: str, cursor: Mark, upto: Mark, events: list[NumberedEvent]
    ) -> bool:
        """Cover the origin up to `upto`; false if earlier events are missing."""
        covered = self.covered.get(origin)
        if covered is not None and cursor > covered:
            return False
        self.events += [each for each in events if covered is None or each.mark > covered]
        self.covered[origin] = upto if covered is None else max(covered, upto)
        return True

    def crash(self) -> None:
        """Places that were not durable are given again, in a new epoch."""
        self._next = self.covered[self.origin][1] + 1
        self._epoch += 1

    def read_page(self, after: Mark, most: int) -> tuple[list[NumberedEvent], Mark]:
        """Return own events after a mark, and the mark up to which they are complete."""
        # After a crash some offsets were given twice.
        start = min(after[1], len(self.own_events))
        while start and self.own_events[start - 1].mark > after:
            start -= 1
        found = self.own_events[start : start + most]
        if len(found) < most:
            covered = self.covered[self.origin]
            # The newest epoch may have no durable event yet.
            return found, max(
                after, self.newest_place if self.newest_place[1] == covered[1] else covered
            )
        return found, found[-1].mark
