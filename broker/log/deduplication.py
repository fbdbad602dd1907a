"""De-duplication marks: the accepted sequence numbers of each publisher (T19)."""

from __future__ import annotations

import enum
import struct
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias

import attrs

from broker.log.checksum import ValueDamaged

_HEAD = struct.Struct(">QQQ")
_RUN = struct.Struct(">QQ")

#: Above every event's number.
NO_NUMBER = 2**64 - 1

#: (ClientId, incarnation): the scope of sequence numbers.
Publisher: TypeAlias = tuple[str, int]


class Freshness(enum.Enum):
    """Result of a check of a sequence number."""

    NEW = "new"
    DUPLICATE = "duplicate"
    OUTSIDE = "outside"
    """Older than the window: new and duplicate can not be distinguished."""


@attrs.define
class SequenceWindow:
    """Accepted numbers of one publisher: all from `floor` to `high`, except `missing`.

    A publisher counts without gaps and sends in order. A number is missing only if its event was
    refused or took another route. So memory is bounded, and all that a publisher repeats after a
    crash is recognised.
    """

    width: int
    """Most runs of missing numbers. So at least this many numbers below `high` are known
    exactly."""
    high: int = 0
    floor: int = 1
    missing: list[tuple[int, int]] = attrs.field(factory=list)
    """Ascending runs (first, last)."""
    used: int = 0
    """Time of the last acceptance, ms since 1970: old windows are dropped by it."""

    def record(self, number: int) -> Freshness:
        if number > self.high:
            if number > self.high + 1:
                self._replace(len(self.missing), 0, [(self.high + 1, number - 1)])
            self.high = number
            return Freshness.NEW
        if number < self.floor:
            return Freshness.OUTSIDE
        index = bisect_right(self.missing, number, key=_first) - 1
        if index < 0 or self.missing[index][1] < number:
            return Freshness.DUPLICATE
        first, last = self.missing[index]
        parts = ((first, number - 1), (number + 1, last))
        self._replace(index, 1, [part for part in parts if part[0] <= part[1]])
        return Freshness.NEW

    def check(self, number: int) -> Freshness:
        if number > self.high:
            return Freshness.NEW
        if number < self.floor:
            return Freshness.OUTSIDE
        missing = any(first <= number <= last for first, last in self.missing)
        return Freshness.NEW if missing else Freshness.DUPLICATE

    def _replace(self, index: int, count: int, runs: list[tuple[int, int]]) -> None:
        self.missing[index : index + count] = runs
        while len(self.missing) > self.width:
            self.floor = self.missing.pop(0)[1] + 1

    def encode(self) -> bytes:
        head = _HEAD.pack(self.high, self.used, self.floor)
        for run in self.missing:
            head += _RUN.pack(*run)
        return head

    @classmethod
    def decode(cls, stored: bytes, width: int) -> SequenceWindow:
        """Decode a window, perhaps with another width."""
        high, used, floor = _HEAD.unpack_from(stored)
        window = cls(width, high, floor, [], used)
        window._replace(0, 0, list(_RUN.iter_unpack(stored[_HEAD.size :])))
        return window


def _first(run: tuple[int, int]) -> int:
    return run[0]


class Deduplication:
    """The windows of all publishers: a bounded cache over the stored windows.

    `take_changed` returns changes to commit with the events, one commit at a time. A window with
    changes that may not be stored yet is never evicted.
    """

    def __init__(
        self, load: Callable[[Publisher], bytes | None], width: int, cached: int = 10_000
    ) -> None:
        self._load = load
        self._width = width
        self._cached = cached
        self._windows: OrderedDict[Publisher, SequenceWindow] = OrderedDict()
        self._changed: set[Publisher] = set()
        self._committing: set[Publisher] = set()

    def next_number(self, publisher: Publisher) -> int:
        """Return the number after the highest accepted one."""
        window = self._windows.get(publisher)
        if window is None:
            window = self._windows[publisher] = self._load_window(publisher)
        return window.high + 1

    def record_run(self, publisher: Publisher, last: int, now_ms: int) -> None:
        """Record new numbers up to `last`."""
        if publisher not in self._windows:
            self.next_number(publisher)
        window = self._windows[publisher]
        window.high = last
        window.used = now_ms
        self._changed.add(publisher)

    def record(self, publisher: Publisher, number: int, now_ms: int) -> Freshness:
        self.next_number(publisher)
        window = self._windows[publisher]
        freshness = window.record(number)
        if freshness is Freshness.NEW:
            window.used = now_ms
            self._changed.add(publisher)
        return freshness

    def check(self, publisher: Publisher, number: int) -> Freshness:
        """Check without recording or caching."""
        window = self._windows.get(publisher)
        if window is None:
            window = self._load_window(publisher)
        return window.check(number)

    def _load_window(self, publisher: Publisher) -> SequenceWindow:
        try:
            stored = self._load(publisher)
        except ValueDamaged:
            # New and duplicate can not be distinguished until the next incarnation.
            return SequenceWindow(self._width, high=NO_NUMBER, floor=NO_NUMBER)
        if stored is None:
            return SequenceWindow(self._width)
        return SequenceWindow.decode(stored, self._width)

    def take_changed(self) -> list[tuple[Publisher, bytes]]:
        """Return changed windows, encoded, and shrink the cache to its bound."""
        rows = []
        for publisher in self._changed:
            rows.append((publisher, self._windows[publisher].encode()))
            self._windows.move_to_end(publisher)
        self._committing, self._changed = self._changed, set()
        while len(self._windows) > self._cached and (
            next(iter(self._windows)) not in self._committing
        ):
            self._windows.popitem(last=False)
        return rows

    def clear(self) -> None:
        """Clear the cache after a failed commit."""
        self._windows.clear()
        self._changed.clear()
        self._committing.clear()
