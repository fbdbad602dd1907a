"""The ranges that a connection has sent, and its child has not acknowledged (DCP D47, D48)."""

from __future__ import annotations

from collections import deque
from typing import Final, TypeAlias

from plugins.dcp.event_range import EventRange
from plugins.dcp.sender import Sent, SequenceSender

_Sender: TypeAlias = SequenceSender[EventRange]
#: Acknowledged ranges in the list.
_MOST_STALE: Final = 256


class SentRanges:
    """Ranges of all sequences of one connection, the oldest first."""

    def __init__(self) -> None:
        self.bytes = 0
        self._count = 0
        self._ranges: deque[tuple[_Sender, Sent[EventRange]]] = deque()

    def add(self, sender: _Sender, sent: Sent[EventRange]) -> None:
        self._ranges.append((sender, sent))
        self.bytes += sent.range.size
        self._count += 1

    def acknowledge(self, sender: _Sender, an: int) -> None:
        """Forget the ranges of a sequence up to an AN."""
        count = sender.kept_count
        self.bytes -= sender.acknowledge(an)
        self._count -= count - sender.kept_count
        if len(self._ranges) > 2 * self._count + _MOST_STALE:
            self._ranges = deque(each for each in self._ranges if each[1].is_kept)

    def keep_bounds(self, most_bytes: int, oldest: float) -> None:
        """Forget the oldest ranges beyond so many bytes, and those sent before a time."""
        ranges = self._ranges
        while ranges:
            sender, sent = ranges[0]
            if sent.is_kept:
                if self.bytes <= most_bytes and sent.sent_at >= oldest:
                    break
                self.bytes -= sender.forget(sent)
                self._count -= 1
            ranges.popleft()
