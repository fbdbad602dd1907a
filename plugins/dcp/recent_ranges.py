"""The last ranges that a node forwarded, and the links behind which each event was wanted."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

from plugins.dcp.event_range import EventRange, SequenceKey
from plugins.dcp.recent_events import MOST_EVENTS

_NO_LINKS: Final = frozenset[Hashable]()


class Forwarded(NamedTuple):
    """An event that a node forwarded."""

    forwarded_at: float
    links: frozenset[Hashable]
    """Those behind which it was wanted."""


class _Entry(NamedTuple):
    key: SequenceKey
    ans: Sequence[int]
    """Those of its events, not the events: these may be large."""
    links: Sequence[frozenset[Hashable]]
    """For each event; empty if the node had no children."""
    forwarded_at: float


class RecentRanges:
    """Ranges with events; the oldest are forgotten."""

    def __init__(self, most: int = MOST_EVENTS) -> None:
        """`most` is a number of events."""
        self._most = most
        self._count = 0
        self._entries: deque[_Entry] = deque()

    def __len__(self) -> int:
        return self._count

    def add(
        self, key: SequenceKey, range_: EventRange, links: Sequence[frozenset[Hashable]], now: float
    ) -> None:
        ans = [event.mark[1] for event in range_.events]
        if not ans:
            return
        entries = self._entries
        entries.append(_Entry(key, ans, links, now))
        self._count += len(ans)
        while self._count > self._most and len(entries) > 1:
            self._count -= len(entries.popleft().ans)

    def find(self, key: SequenceKey, an: int) -> Forwarded | None:
        """Return how an event was forwarded; None for an event that is not remembered."""
        for entry in reversed(self._entries):
            if entry.key == key and entry.ans[0] <= an <= entry.ans[-1]:
                number = bisect_left(entry.ans, an)
                if entry.ans[number] == an:
                    links = entry.links[number] if entry.links else _NO_LINKS
                    return Forwarded(entry.forwarded_at, links)
        return None
