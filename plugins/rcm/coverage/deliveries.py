"""Messages that this site has delivered, once they are in its log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import attrs

from broker.event.order_entry import decode_entry_fields
from broker.event.place import Mark
from broker.event.site_coverage import CoverageTable, CoveredMessages
from broker.streams.contract import CarriedEvent
from broker.transport.order import MessageId

#: Runs of messages that are not in the log yet. Beyond that nothing is known any more of the
#: incarnation of the oldest one, up to this.
MOST_WAITING: Final = 10_000


@attrs.frozen
class _Run:
    """Messages that count when the log has a flow up to a place."""

    covered: CoveredMessages
    flow: str = ""
    """Empty for messages that are in no log."""
    mark: Mark = (0, 0)


class Deliveries:
    """A gap below a delivered message is missing: those of one sender come in their order."""

    def __init__(self, stack: str, coverage_of: Callable[[str], Mark]) -> None:
        """`coverage_of` returns the place up to which the log has a flow."""
        self.table = CoverageTable()
        self._stack = stack
        self._coverage_of = coverage_of
        self._waiting: dict[tuple[str, int, int], _Run] = {}
        """By site, incarnation and last number."""

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def restore(self, events: Sequence[CarriedEvent]) -> None:
        """Add events of the log."""
        for event in events:
            for covered in self._read_runs([event]):
                self._cover(covered)

    def add_events(self, flow: str, events: Sequence[CarriedEvent]) -> None:
        """Add events that are about to be logged."""
        mark = events[-1].mark if events else (0, 0)
        for covered in self._read_runs(events):
            self._add(_Run(covered, flow, mark))

    def add_message(self, id: MessageId) -> None:
        """Add a message that is no event."""
        self._add(_Run(CoveredMessages(id.site, id.incarnation, id.number, id.number)))

    def add_missing(self, site: str, incarnation: int, first: int, last: int) -> None:
        self._add(_Run(CoveredMessages(site, incarnation, first, last, ((first, last),))))

    def take_back(self, taken: Iterable[MessageId]) -> None:
        """Remove messages that were not logged after all. They come again."""
        lost = frozenset(taken)
        for site, incarnation, last in lost:
            run = self._waiting.pop((site, incarnation, last), None)
            if run is None:
                continue
            # The end of a run is lost; the messages before it are logged.
            while last >= run.covered.first and MessageId(site, incarnation, last) in lost:
                last -= 1
            if last >= run.covered.first:
                self._add(_Run(attrs.evolve(run.covered, last=last)))

    def settle(self) -> None:
        """Count what is logged now, of each sender in the order of delivery."""
        blocked: set[tuple[str, int]] = set()
        for key, run in list(self._waiting.items()):
            sender = key[:2]
            if sender in blocked or (run.flow and self._coverage_of(run.flow) < run.mark):
                blocked.add(sender)
            else:
                del self._waiting[key]
                self._cover(run.covered)

    def _add(self, run: _Run) -> None:
        covered = run.covered
        self._waiting[covered.site, covered.incarnation, covered.last] = run
        if len(self._waiting) > MOST_WAITING:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            self.table.remove(*oldest[:2])

    def _cover(self, covered: CoveredMessages) -> None:
        known = self.table.find(covered.site, covered.incarnation)
        if known is not None and known.last + 1 < covered.first:
            gap = known.last + 1, covered.first - 1
            self.table.add(attrs.evolve(covered, first=gap[0], last=gap[1], missing=(gap,)))
        self.table.add(covered)

    def _read_runs(self, events: Sequence[CarriedEvent]) -> Iterator[CoveredMessages]:
        """Yield the events of this stack, in runs if their numbers follow each other."""
        if not events:
            return
        first = self._read_id(events[0])
        last = first if len(events) == 1 else self._read_id(events[-1])
        if first and last and last == (*first[:2], first[2] + len(events) - 1):
            # Numbers rise within a flow, so those between are consecutive.
            yield CoveredMessages(*first, last[2])
            return
        for event in events:
            if (id := self._read_id(event)) is not None:
                yield CoveredMessages(*id, id[2])

    def _read_id(self, event: CarriedEvent) -> tuple[str, int, int] | None:
        fields = decode_entry_fields(event.annotation)
        return None if fields is None or fields[0] != self._stack else fields[1:4]
