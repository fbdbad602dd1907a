"""The chains of all parents of one sequence: which missing ranges can still come (DCP D43, D44)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Final, NamedTuple

from broker.streams.dropped_count import DroppedCount
from plugins.dcp.epoch_steps import EpochSteps
from plugins.dcp.parent_chain import ParentChain
from plugins.dcp.parent_path import ParentPath

#: Seconds for which no range waits for a parent that has withheld a statement.
_NOT_AWAITED: Final = 60.0


class Statements(NamedTuple):
    """Statements of all live parents about the places behind an AN."""

    end: int
    """Up to there they stay the same."""
    parents: int
    """Number of those that have stated all their events there; the others can not."""


class ParentChains:
    def __init__(self, parents: Mapping[Hashable, ParentPath]) -> None:
        """`parents` has the paths of the live parents; its owner keeps it up to date."""
        self._parents = parents
        self._chains: dict[Hashable, ParentChain] = {}

    def __iter__(self) -> Iterator[ParentChain]:
        return iter(self._chains.values())

    def __len__(self) -> int:
        return len(self._chains)

    def find(self, parent: Hashable) -> ParentChain | None:
        """Return None for a parent that has sent no part of the sequence, and not stated its
        begin."""
        return self._chains.get(parent)

    def get(self, parent: Hashable) -> ParentChain:
        """Return the chain of a parent, which may begin now."""
        found = self._chains.get(parent)
        if found is None:
            found = self._chains[parent] = ParentChain()
        return found

    def remove(self, parent: Hashable) -> None:
        self._chains.pop(parent, None)

    def have_passed(self, an: int, required: EpochSteps) -> bool:
        """Return whether no live parent sends the range behind an AN without a request."""
        chains = self._of_responsive_parents()
        return bool(chains) and all(
            each is not None and each.has_passed(an, required) for each in chains
        )

    def unavailable_after(self, an: int, required: EpochSteps) -> int | None:
        """Return the end of the range behind an AN that no live parent can send; None: one may."""
        ends: list[int] = []
        for each in self._of_responsive_parents():
            end = None if each is None else each.unavailable_after(an, required)
            if end is None:
                return None
            ends.append(end)
        return min(ends, default=None)

    def statements_after(self, an: int, required: EpochSteps, now: float) -> Statements | None:
        """Return the parents' statements about the places behind an AN; None: one may follow."""
        ends: list[int] = []
        parents = 0
        for each in self._of_responsive_parents():
            end = None if each is None else each.statement_after(an, required)
            if end is not None:
                parents += 1
            elif each is not None:
                end = each.unavailable_after(an, required)
            if end is not None:
                ends.append(end)
            elif each is None or now >= each.not_awaited_until:
                return None
        return Statements(min(ends), parents) if ends else None

    def stop_awaiting(self, an: int, required: EpochSteps, now: float) -> None:
        """Wait no more for parents that have stated nothing about the places behind an AN."""
        for parent, path in self._live_parents():
            each = self.get(parent)
            states = each.statement_after(an, required) or each.unavailable_after(an, required)
            if states is None:
                each.not_awaited_until = now + _NOT_AWAITED
                path.withheld += 1

    def find_omitting(self, parent: Hashable, an: int) -> list[Hashable]:
        """Return the parents that select events as one of them, and have stated a range without
        an event that it brings. It may be among them."""
        bringing = self._chains[parent].epochs.epoch_at(an)
        return [
            other
            for other, each in self._chains.items()
            if each.claims.has_claimed(an) and each.epochs.epoch_at(an) == bringing
        ]

    def find_dropped(self, an: int) -> DroppedCount | None:
        """Return the count of the event behind an AN, if queue policies of all live parents have
        dropped it."""
        chains = self._of_responsive_parents()
        counts = [None if each is None else each.find_dropped(an) for each in chains]
        known = [each for each in counts if each is not None]
        if not known or len(known) < len(counts):
            return None
        return known[0]._replace(is_coalesced=all(each.is_coalesced for each in known))

    def _of_responsive_parents(self) -> list[ParentChain | None]:
        return [self._chains.get(parent) for parent, _ in self._live_parents()]

    def _live_parents(self) -> list[tuple[Hashable, ParentPath]]:
        return [each for each in self._parents.items() if not each[1].is_suspect]
