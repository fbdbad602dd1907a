"""Prefix index: find the stored prefixes of a value (checklist F5)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence

from broker.matching.index.shrinking_dict import ShrinkingDict

#: Up to so many distinct lengths, hashing a prefix of each length is faster than bisection.
_FEW_LENGTHS = 4


class PrefixIndex:
    """Sorted prefixes, found by one bisection for each value.

    Everything sorted between a text and one of its prefixes starts with that prefix. So all stored
    prefixes of a value are prefixes of its predecessor.
    """

    __slots__ = ("_lengths", "_nested", "_ordered", "_uses")

    def __init__(self) -> None:
        self._uses = ShrinkingDict[bytes, int]()
        self._ordered: list[bytes] = []
        self._lengths: Counter[int] = Counter()
        #: For a prefix all stored prefixes of it, longest first, computed when first needed.
        self._nested: dict[bytes, tuple[bytes, ...]] = {}

    def add(self, prefix: bytes) -> None:
        uses = self._uses.get(prefix, 0)
        self._uses[prefix] = uses + 1
        if not uses:
            self._ordered.insert(bisect_left(self._ordered, prefix), prefix)
            self._lengths[len(prefix)] += 1
            self._nested.clear()

    def remove(self, prefix: bytes) -> None:
        self._uses[prefix] -= 1
        if not self._uses[prefix]:
            del self._uses[prefix], self._ordered[bisect_left(self._ordered, prefix)]
            self._lengths[len(prefix)] -= 1
            if not self._lengths[len(prefix)]:
                del self._lengths[len(prefix)]
            self._nested.clear()

    def find_prefixes(self, values: Sequence[bytes]) -> list[tuple[int, bytes]]:
        """Return pairs of a row and a prefix of its value."""
        found = []
        if len(self._lengths) <= _FEW_LENGTHS:
            uses = self._uses
            for length in self._lengths:
                # Slicing a shorter value returns the value, which has not this length.
                found += [
                    (row, prefix)
                    for row, value in enumerate(values)
                    if (prefix := value[:length]) in uses and len(prefix) == length
                ]
            return found
        ordered, known = self._ordered, self._nested
        for row, value in enumerate(values):
            at = bisect_right(ordered, value)
            if not at:
                continue
            before = ordered[at - 1]
            nested = known.get(before)
            if nested is None:
                nested = known[before] = tuple(self._nested_prefixes(before))
            if value.startswith(nested[-1]):
                found += [(row, prefix) for prefix in nested if value.startswith(prefix)]
        return found

    def _nested_prefixes(self, prefix: bytes) -> Iterator[bytes]:
        for length in sorted(self._lengths, reverse=True):
            beginning = prefix[:length]
            if len(beginning) == length and beginning in self._uses:
                yield beginning
