"""De-duplication marks: which sequence numbers of a publisher were accepted (T19).

Per (ClientId, incarnation) a high-water mark and the few numbers below it that were not accepted:
bounded memory per publisher, and an atomic check-and-record instead of a set that grows.
"""

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

#: Above all numbers of events.
NO_NUMBER = 2**64 - 1

#: (ClientId, incarnation): the space in which sequence numbers count.
Publisher: TypeAlias = tuple[str, int]


class Freshness(enum.Enum):
    """What the marks say of a sequence number."""

    NEW = "new"
    DUPLICATE = "duplicate"
    OUTSIDE = "outside"
    """So old, with so many refused since, that new and duplicate can not be told apart."""


@attrs.define
class SequenceWindow:
    """The accepted numbers of one publisher: all from `floor` to `high`, but for the `missing`.

    A publisher counts without holes and sends in order, so a number is missing only where its
    event was refused, or has gone another way. However many events a publisher sends again after
    a crash, all are known; a window of so many numbers would know only the last.
    """

    width: int
    """Most runs of missing numbers; so at least so many numbers below `high` are known exactly."""
    high: int = 0
    floor: int = 1
    missing: list[tuple[int, int]] = attrs.field(factory=list)
    """Ascending runs (first, last)."""
    used: int = 0
    """Milliseconds since 1970 of the last acceptance: old windows are forgotten by it."""

    def record(self, number: int) -> Freshness:
        """Check `number` and, if it is new, record it, in one step."""
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
        """What the marks say of `number`; records nothing."""
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
        """The window as it is stored."""
        head = _HEAD.pack(self.high, self.used, self.floor)
        for run in self.missing:
            head += _RUN.pack(*run)
        return head

    @classmethod
    def decode(cls, stored: bytes, width: int) -> SequenceWindow:
        """The window that `encode` wrote, perhaps under another width."""
        high, used, floor = _HEAD.unpack_from(stored)
        window = cls(width, high, floor, [], used)
        window._replace(0, 0, list(_RUN.iter_unpack(stored[_HEAD.size :])))
        return window


def _first(run: tuple[int, int]) -> int:
    return run[0]


class Deduplication:
    """The windows of all publishers: a bounded cache over what the log has stored.

    `load` gives a publisher's stored window or None. `changed` hands over what was recorded since
    the last call, to be committed in the same transaction as the events: one commit at a time. A
    window with changes that may not be stored yet is never evicted.
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
        """The number after the highest that was accepted: it and all above it are new."""
        window = self._windows.get(publisher)
        if window is None:
            window = self._windows[publisher] = self._load_window(publisher)
        return window.high + 1

    def record_run(self, publisher: Publisher, last: int, now_ms: int) -> None:
        """Record the numbers from `following` to `last`, all of them new."""
        if publisher not in self._windows:
            self.next_number(publisher)
        window = self._windows[publisher]
        window.high = last
        window.used = now_ms
        self._changed.add(publisher)

    def record(self, publisher: Publisher, number: int, now_ms: int) -> Freshness:
        """Check-and-record one sequence number."""
        self.next_number(publisher)
        window = self._windows[publisher]
        freshness = window.record(number)
        if freshness is Freshness.NEW:
            window.used = now_ms
            self._changed.add(publisher)
        return freshness

    def check(self, publisher: Publisher, number: int) -> Freshness:
        """What the marks say of a sequence number; nothing is recorded or kept."""
        window = self._windows.get(publisher)
        if window is None:
            window = self._load_window(publisher)
        return window.check(number)

    def _load_window(self, publisher: Publisher) -> SequenceWindow:
        try:
            stored = self._load(publisher)
        except ValueDamaged:
            # New and duplicate can not be told apart: every number is outside, until the publisher
            # comes with another incarnation.
            return SequenceWindow(self._width, high=NO_NUMBER, floor=NO_NUMBER)
        if stored is None:
            return SequenceWindow(self._width)
        return SequenceWindow.decode(stored, self._width)

    def take_changed(self) -> list[tuple[Publisher, bytes]]:
        """The windows that changed, encoded; then bring the cache back to its bound."""
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
        """Drop the cache: what was recorded for a commit that failed never happened."""
        self._windows.clear()
        self._changed.clear()
        self._committing.clear()
