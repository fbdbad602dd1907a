"""De-duplication marks: which sequence numbers of a publisher were accepted (T19).

Per (ClientId, incarnation) a high-water mark and a bitmap of the numbers just below it: constant
memory per publisher, and an atomic check-and-record instead of a set that grows.
"""

from __future__ import annotations

import enum
import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias

import attrs

_HEAD = struct.Struct(">QQ")

#: (ClientId, incarnation): the space in which sequence numbers count.
Publisher: TypeAlias = tuple[str, int]


class Freshness(enum.Enum):
    """What the marks say of a sequence number."""

    NEW = "new"
    DUPLICATE = "duplicate"
    OUTSIDE = "outside"
    """So far below the high-water mark that new and duplicate can not be told apart."""


@attrs.define
class SequenceWindow:
    """The accepted numbers of one publisher: `high` and the `width` numbers up to it.

    Bit i of `bits` stands for `high - i`.
    """

    width: int
    high: int = 0
    bits: int = 0
    used: int = 0
    """Milliseconds since 1970 of the last acceptance: old windows are forgotten by it."""

    def record(self, number: int) -> Freshness:
        """Check `number` and, if it is new, record it, in one step."""
        ahead = number - self.high
        if ahead > 0:
            # A jump beyond the window must not build an integer of that many bits first.
            kept = self.bits << ahead if ahead < self.width else 0
            self.bits = (kept | 1) & ((1 << self.width) - 1)
            self.high = number
            return Freshness.NEW
        if -ahead >= self.width:
            return Freshness.OUTSIDE
        bit = 1 << -ahead
        if self.bits & bit:
            return Freshness.DUPLICATE
        self.bits |= bit
        return Freshness.NEW

    def encode(self) -> bytes:
        """The window as it is stored."""
        return _HEAD.pack(self.high, self.used) + self.bits.to_bytes((self.width + 7) // 8, "big")

    @classmethod
    def decode(cls, stored: bytes, width: int) -> SequenceWindow:
        """The window that `encode` wrote, perhaps under another width."""
        high, used = _HEAD.unpack_from(stored)
        bits = int.from_bytes(stored[_HEAD.size :], "big") & ((1 << width) - 1)
        return cls(width, high, bits, used)


class Deduplication:
    """The windows of all publishers: a bounded cache over what the log has stored.

    `load` gives a publisher's stored window or None. `changed` hands over what was recorded since
    the last call, to be committed in the same transaction as the events. A window with changes
    that are not handed over yet is never evicted.
    """

    def __init__(
        self, load: Callable[[Publisher], bytes | None], width: int, cached: int = 10_000
    ) -> None:
        self._load = load
        self._width = width
        self._cached = cached
        self._windows: OrderedDict[Publisher, SequenceWindow] = OrderedDict()
        self._changed: set[Publisher] = set()

    def record(self, publisher: Publisher, number: int, now_ms: int) -> Freshness:
        """Check-and-record one sequence number."""
        window = self._windows.get(publisher)
        if window is None:
            stored = self._load(publisher)
            window = (
                SequenceWindow(self._width)
                if stored is None
                else SequenceWindow.decode(stored, self._width)
            )
            self._windows[publisher] = window
        freshness = window.record(number)
        if freshness is Freshness.NEW:
            window.used = now_ms
            self._changed.add(publisher)
        return freshness

    def changed(self) -> list[tuple[Publisher, bytes]]:
        """The windows that changed, encoded; then bring the cache back to its bound."""
        rows = [(publisher, self._windows[publisher].encode()) for publisher in self._changed]
        for publisher in self._changed:
            self._windows.move_to_end(publisher)
        self._changed.clear()
        while len(self._windows) > self._cached:
            self._windows.popitem(last=False)
        return rows

    def forget(self) -> None:
        """Drop the cache: what was recorded for a commit that failed never happened."""
        self._windows.clear()
        self._changed.clear()
