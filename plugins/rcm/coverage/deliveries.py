"""Messages that this site has delivered, once they are in its log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from broker.event.place import Mark
from broker.event.site_coverage import CoverageTable, CoveredMessages
from broker.transport.order import MessageId
from plugins.rcm.delivered_run import DeliveredRun

#: Runs of messages that are not in the log yet. Beyond that nothing is known any more of the
#: incarnation of the oldest one, up to this.
MOST_WAITING: Final = 10_000


class _Run(NamedTuple):
    """Messages that count when the log has a flow up to a place."""

    first: int
    is_missing: bool = False
    flow: str = ""
    """Empty for messages that are in no log."""
    mark: Mark = (0, 0)


class Deliveries:
    """A gap below a delivered message is missing: those of one sender come in their order."""

    def __init__(self, coverage_of: Callable[[str], Mark]) -> None:
        """`coverage_of` returns the place up to which the log has a flow."""
        self.table = CoverageTable()
        self._coverage_of = coverage_of
        self._waiting: dict[MessageId, _Run] = {}
        """By the last message of each run."""

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def restore(self, runs: Iterable[DeliveredRun]) -> None:
        """Add events of the log."""
        for run in runs:
            self._cover(_last_of(run), run.id.number, is_missing=False)

    def add_events(self, flow: str, runs: Iterable[DeliveredRun]) -> None:
        """Add events that are about to be logged."""
        for run in runs:
            self._add(_last_of(run), _Run(run.id.number, flow=flow, mark=run.events[-1].mark))

    def add_message(self, id: MessageId) -> None:
        """Add a message that is no event."""
        self._add(id, _Run(id.number))

    def add_missing(self, site: str, incarnation: int, first: int, last: int) -> None:
        self._add(MessageId(site, incarnation, last), _Run(first, is_missing=True))

    def take_back(self, taken: Iterable[MessageId]) -> None:
        """Remove messages that were not logged after all. They come again."""
        lost = frozenset(taken)
        for last in lost:
            run = self._waiting.pop(last, None)
            if run is None:
                continue
            # The end of a run is lost; the messages before it are logged.
            while last.number >= run.first and last in lost:
                last = last._replace(number=last.number - 1)
            if last.number >= run.first:
                self._add(last, _Run(run.first))

    def settle(self) -> None:
        """Count what is logged now, of each sender in the order of delivery."""
        blocked: set[tuple[str, int]] = set()
        counted: dict[tuple[str, int], tuple[MessageId, _Run]] = {}
        for id, run in list(self._waiting.items()):
            sender = id[:2]
            if sender in blocked or (run.flow and self._coverage_of(run.flow) < run.mark):
                blocked.add(sender)
                continue
            del self._waiting[id]
            before = counted.get(sender)
            if before is not None:
                last, joined = before
                if last.number + 1 == run.first and joined.is_missing == run.is_missing:
                    run = joined
                else:
                    self._cover(last, joined.first, is_missing=joined.is_missing)
            counted[sender] = id, run
        for last, run in counted.values():
            self._cover(last, run.first, is_missing=run.is_missing)

    def _add(self, last: MessageId, run: _Run) -> None:
        self._waiting[last] = run
        if len(self._waiting) > MOST_WAITING:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            self.table.remove(oldest.site, oldest.incarnation)

    def _cover(self, last: MessageId, first: int, *, is_missing: bool) -> None:
        sender = last.site, last.incarnation
        known = self.table.find(*sender)
        if known is not None and known.last + 1 < first:
            gap = known.last + 1, first - 1
            self.table.add(CoveredMessages(*sender, *gap, (gap,)))
        missing = ((first, last.number),) if is_missing else ()
        self.table.add(CoveredMessages(*sender, first, last.number, missing))


def _last_of(run: DeliveredRun) -> MessageId:
    return run.id.after(len(run.events) - 1)
