"""The ranges that one parent has sent of one sequence."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import Final

import attrs

from broker.streams.dropped_count import DroppedCount
from plugins.dcp.claimed_ranges import ClaimedRanges
from plugins.dcp.epoch_steps import EpochSteps
from plugins.dcp.parent_path import ParentPath

_MOST_UNAVAILABLE: Final = 4_096
_MOST_SKIPPABLE: Final = 256


@attrs.define
class ParentChain:
    """The ranges of one parent, each of which begins where the last one ended."""

    end: int = -1
    """End of its newest range; -1: none came."""
    start: int = 0
    """Begin of its first range."""
    advanced_at: float = 0.0
    epochs: EpochSteps = attrs.field(factory=EpochSteps)
    """Epochs of the query by which it selects events."""
    claims: ClaimedRanges = attrs.field(factory=ClaimedRanges)
    not_awaited_until: float = 0.0
    """Until then no range waits for a statement of this parent: it has withheld one."""
    _unavailable: list[tuple[int, int]] = attrs.field(factory=list)
    """The first begins first."""
    _dropped: dict[int, DroppedCount] = attrs.field(factory=dict)
    """Of those that are one event which a queue policy dropped, by its AN."""
    _acknowledged: int = -1
    """Greatest place that the parent knows."""
    _skippable: deque[tuple[int, int]] = attrs.field(factory=lambda: deque(maxlen=_MOST_SKIPPABLE))
    """Ranges that it need not have sent: it knew that they have come."""

    @property
    def has_begun(self) -> bool:
        return self.end >= 0

    def begin(self, an: int) -> None:
        """Note that its first range begins behind an AN."""
        self.start = self.end = an
        self.add_unavailable(0, an, 0)

    def advance(self, an: int, now: float) -> None:
        if self._acknowledged > self.end:
            upto = min(an, self._acknowledged)
            begin = self.end
            if self._skippable and self._skippable[-1][1] == begin:
                begin = self._skippable.pop()[0]
            self._skippable.append((begin, upto))
        self.end, self.advanced_at = an, now

    def acknowledge(self, an: int) -> None:
        """Note that the parent knows a place of this node."""
        self._acknowledged = max(self._acknowledged, an)

    def count_jump(self, an: int, path: ParentPath) -> None:
        """Count that its next range begins behind its end: ranges were lost, or the parent has
        skipped what it knew to have come (D51)."""
        if an <= self._acknowledged:
            path.skipped += 1
        else:
            path.lost += 1

    def observes(self, an: int, required: EpochSteps) -> bool:
        """Return whether the parent has sent an event by now, unless it was lost."""
        return (
            self.start < an <= self.end
            and self.epochs.epoch_at(an) >= required.epoch_at(an)
            and not (self._skippable and any(a < an <= upto for a, upto in self._skippable))
        )

    def add_unavailable(
        self, after: int, upto: int, current: int, dropped: DroppedCount | None = None
    ) -> None:
        """Note a range that the parent can not send. The furthest are dropped if there is no room:
        a request brings them again."""
        known = self._unavailable
        while known and known[0][1] <= current:
            self._dropped.pop(known.pop(0)[1], None)
        place = bisect_left(known, (after, upto))
        if after < upto and known[place : place + 1] != [(after, upto)]:
            known.insert(place, (after, upto))
            if dropped is not None:
                self._dropped[upto] = dropped
        if len(known) > _MOST_UNAVAILABLE:
            self._dropped.pop(known.pop()[1], None)

    def find_dropped(self, an: int) -> DroppedCount | None:
        """Return the count of the event behind an AN, if a queue policy dropped it."""
        return self._dropped.get(an + 1)

    def unavailable_after(self, an: int, required: EpochSteps) -> int | None:
        """Return the end of the range behind an AN that the parent can not send; None if it can.

        Events that it did not select by the required query are not in its ranges.
        """
        before = self._unavailable[: bisect_left(self._unavailable, (an + 1, 0))]
        end = max((upto for _, upto in before if an < upto), default=None)
        if end is None and an < self.end:
            epoch = required.epoch_at(an + 1)
            if self.epochs.epoch_at(an + 1) < epoch:
                return min(self.end, self.epochs.reached_after(epoch))
        return end

    def statement_after(self, an: int, required: EpochSteps) -> int | None:
        """Return up to which AN the parent has stated all events of the required query behind
        one; None: it has not."""
        if self.epochs.epoch_at(an + 1) < required.epoch_at(an + 1):
            return None
        end = self.claims.end_after(an)
        if end is None:
            return None
        return min([end, *self.epochs.begins_between(an, end), *required.begins_between(an, end)])

    def has_passed(self, an: int, required: EpochSteps) -> bool:
        """Return whether the parent sends nothing behind an AN any more without a request."""
        return self.end > an or self.unavailable_after(an, required) is not None
