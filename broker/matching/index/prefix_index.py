"""Which of many prefixes a value begins with (checklist F5)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence

from broker.matching.index.shrinking_dict import ShrinkingDict

#: Lengths up to which a hash of a value's beginning for each costs less than a bisection.
_FEW_LENGTHS = 4


class PrefixIndex:
    """Prefixes in order. All that a value begins with are prefixes of the one before its place:

    whatever is ordered between a text and one of its prefixes begins with that prefix too. So a
    value takes one bisection, however many lengths there are.
    """

    __slots__ = ("_lengths", "_nested", "_ordered", "_uses")

    def __init__(self) -> None:
        self._uses = ShrinkingDict[bytes, int]()
        self._ordered: list[bytes] = []
        self._lengths: Counter[int] = Counter()
        #: A prefix and the others that it begins with, longest first; made when it is wanted.
        self._nested: dict[bytes, tuple[bytes, ...]] = {}

    def add(self, prefix: bytes) -> None:
        """Take in a prefix, once more."""
        uses = self._uses.get(prefix, 0)
        self._uses[prefix] = uses + 1
        if not uses:
            self._ordered.insert(bisect_left(self._ordered, prefix), prefix)
            self._lengths[len(prefix)] += 1
            self._nested.clear()

    def remove(self, prefix: bytes) -> None:
        """Forget a prefix, once."""
        self._uses[prefix] -= 1
        if not self._uses[prefix]:
            del self._uses[prefix], self._ordered[bisect_left(self._ordered, prefix)]
            self._lengths[len(prefix)] -= 1
            if not self._lengths[len(prefix)]:
                del self._lengths[len(prefix)]
            self._nested.clear()

    def find_prefixes(self, values: Sequence[bytes]) -> list[tuple[int, bytes]]:
        """The rows of values and the prefixes that each begins with."""
        found = []
        if len(self._lengths) <= _FEW_LENGTHS:
            uses = self._uses
            for length in self._lengths:
                # The beginning of a shorter value is the value, which is no prefix of this length.
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
