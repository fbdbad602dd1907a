"""A receiver that trusts no single parent: several must state that a range has no events.

A parent can not forge an event, since its origin has signed it; but it can state a range without
one. So each range is taken apart. An event is delivered as soon as nothing is between it and the
place before. Places between events are passed when all live parents, at least two, have stated that
they have no event there. What only one parent has stated is left to the log of the origin.

So a node gets the events that any of its parents has, in their order. It pays with the time until
the slowest parent has come to the same place, where a query selects only some of the events.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final

from plugins.dcp.parent_chain import ParentChain
from plugins.dcp.parent_path import ParentPath
from plugins.dcp.receiver import RangeT, ReceiverSettings, SequenceReceiver
from plugins.dcp.recent_events import RecentEvents

#: Parents that must state the same.
LEAST_STATEMENTS: Final = 2


class ConfirmingReceiver(SequenceReceiver[RangeT]):
    def __init__(
        self,
        parents: Mapping[Hashable, ParentPath],
        settings: ReceiverSettings,
        recent: RecentEvents | None,
        make_range: Callable[[int, int], RangeT],
    ) -> None:
        """`make_range` makes a range without events; else as `SequenceReceiver`."""
        super().__init__(parents, settings, recent)
        self._make_range = make_range
        self._begin: int | None = None
        """Place at which the sequence has begun."""

    def begin(self, an: int, now: float) -> list[RangeT]:
        """Begin behind the lowest AN that a parent states until something is delivered: one alone
        may state a begin far ahead."""
        if self.current == self._begin and self.current is not None:
            self.current = min(an, self.current)
        found = super().begin(an, now)
        self._begin = an if self._begin is None else min(an, self._begin)
        return found

    def _is_trusted(self, chain: ParentChain) -> bool:
        return False

    def _take_apart(self, range_: RangeT, chain: ParentChain) -> Sequence[RangeT]:
        return range_.single_events()

    def _confirm_following(self, delivered: list[RangeT], now: float) -> bool:
        assert self.current is not None
        found = self._chains.statements_after(self.current, self.required, now)
        if found is None or found.parents < LEAST_STATEMENTS:
            return False
        end = min(found.end, self._held.first_begin) if self._held else found.end
        delivered.append(self._make_range(self.current, end))
        self.current = end
        return True

    def _find_lost_end(self, current: int, now: float) -> int | None:
        found = self._chains.statements_after(current, self.required, now)
        if found is None or (found.parents and not self._held):
            # Behind what one parent has stated, no event shows that something is missing.
            return None
        return found.end

    def _has_lost(self, chain: ParentChain, current: int) -> bool:
        return super()._has_lost(chain, current) and chain.claims.end_after(current) is None

    def _pass_missing_range(self, now: float) -> list[RangeT]:
        """Wait no more for parents that have not stated what is in the range."""
        current = self.current
        assert current is not None
        self._chains.stop_awaiting(current, self.required, now)
        delivered = self._advance(now)
        return delivered if self.current != current else super()._pass_missing_range(now)
