"""Indexes of texts: the stored prefixes of a value, and the stored texts in it (checklist F5)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence

import attrs

from broker.matching.index.shrinking_dict import ShrinkingDict

#: Up to so many distinct lengths, hashing a prefix of each length is faster than bisection.
_FEW_LENGTHS = 4


class PrefixIndex:
    """Sorted prefixes, found by one bisection for each value.

    Everything between a text and its prefix starts with that prefix. So all stored prefixes of a
    value are prefixes of its predecessor.
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


#: A text is filed under one of its grams of three bytes, and tested on values with that gram.
_GRAM_BYTES = 3
#: The rarest gram is chosen among the first ones of a text.
_GRAMS_TRIED = 64
#: Grams of a value are collected in pieces, since a large value would need a large set.
_PIECE = 4096
#: Nanoseconds, roughly, as measured: for a gram of a value, for a test, and for each byte of a
#: test.
_GRAM_COST = 70.0
_TEST_COST, _TEST_COST_PER_BYTE = 45.0, 0.05
#: Bytes of the memo of one parameter. The memo is cleared at this size.
MEMO_BYTES = 64 * 1024
#: Bytes of a memo entry besides its value: object headers and the dict slot.
_ENTRY_BYTES = 180


@attrs.define
class _IndexedText:
    gram: bytes
    uses: int = 1


class SubstringIndex:
    __slots__ = ("_by_gram", "_memo", "_memo_size", "_short", "_texts")

    def __init__(self) -> None:
        self._texts = ShrinkingDict[bytes, _IndexedText]()
        self._by_gram = ShrinkingDict[bytes, dict[bytes, None]]()
        self._short: dict[bytes, None] = {}
        self._memo: dict[bytes, tuple[bytes, ...]] = {}
        self._memo_size = 0

    def add(self, text: bytes) -> None:
        known = self._texts.get(text)
        if known is not None:
            known.uses += 1
            return
        gram = self._rarest_gram(text)
        self._texts[text] = _IndexedText(gram)
        if gram:
            self._by_gram.setdefault(gram, {})[text] = None
        else:
            self._short[text] = None
        self._clear_memo()

    def remove(self, text: bytes) -> None:
        known = self._texts[text]
        known.uses -= 1
        if known.uses:
            return
        del self._texts[text]
        if known.gram:
            filed = self._by_gram[known.gram]
            del filed[text]
            if not filed:
                del self._by_gram[known.gram]
        else:
            del self._short[text]
        self._clear_memo()

    def search_column(self, values: Sequence[bytes]) -> list[tuple[bytes, ...]]:
        return [self.find_contained(value) for value in values]

    def find_contained(self, value: bytes) -> tuple[bytes, ...]:
        known = self._memo.get(value)
        if known is None:
            known = tuple(self._search(value))
            weight = len(value) + 8 * len(known) + _ENTRY_BYTES
            if weight <= MEMO_BYTES:
                if self._memo_size + weight > MEMO_BYTES:
                    self._clear_memo()
                self._memo[value] = known
                self._memo_size += weight
        return known

    def _clear_memo(self) -> None:
        self._memo.clear()
        self._memo_size = 0

    def _rarest_gram(self, text: bytes) -> bytes:
        end = min(len(text) - _GRAM_BYTES + 1, _GRAMS_TRIED)
        grams = (text[start : start + _GRAM_BYTES] for start in range(end))
        return min(grams, key=lambda gram: len(self._by_gram.get(gram, ())), default=b"")

    def _search(self, value: bytes) -> list[bytes]:
        test_cost = len(self._texts) * (_TEST_COST + _TEST_COST_PER_BYTE * len(value))
        if len(value) * _GRAM_COST > test_cost:
            return [text for text in self._texts if text in value]
        found = [text for text in self._short if text in value]
        for gram in self._grams_in(value):
            found += [text for text in self._by_gram[gram] if text in value]
        return found

    def _grams_in(self, value: bytes) -> set[bytes]:
        present: set[bytes] = set()
        for start in range(0, len(value), _PIECE):
            piece = value[start : start + _PIECE + _GRAM_BYTES - 1]
            grams = {piece[at : at + _GRAM_BYTES] for at in range(len(piece) - _GRAM_BYTES + 1)}
            present |= self._by_gram.keys() & grams
        return present
