"""The chains of all parents of one sequence: which missing ranges can still come (DCP D43, D44)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from broker.streams.dropped_count import DroppedCount
from plugins.dcp.epoch_steps import EpochSteps
from plugins.dcp.parent_chain import ParentChain
from plugins.dcp.parent_path import ParentPath


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
        live = [parent for parent, path in self._parents.items() if not path.is_suspect]
        return [self._chains.get(parent) for parent in live]
