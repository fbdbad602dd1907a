"""The last events of a node, of all its sequences: which parents brought each, and when."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Final, NamedTuple, Protocol

import attrs

#: Events that a node remembers, in all sequences.
MOST_EVENTS: Final = 65_536
#: Copies of one event that it remembers beside the first.
_MOST_LATER: Final = 8


class LaterCopy(NamedTuple):
    parent: Hashable
    received_at: float
    is_repeated: bool
    """True for a retransmission."""


@attrs.define
class FirstCopy:
    digest: int
    """Hash of the document."""
    received_at: float
    parent: Hashable
    is_repeated: bool = False
    later: list[LaterCopy] | None = None
    """Further copies; None: there are none."""

    def add_later(self, copy: LaterCopy) -> None:
        """Remember a further copy, unless there are many."""
        if self.later is None:
            self.later = [copy]
        elif len(self.later) < _MOST_LATER:
            self.later.append(copy)


class Disagreement(NamedTuple):
    """Two parents sent different events with one AN."""

    an: int
    first: Hashable
    other: Hashable


class IRememberedSequence(Protocol):
    """A sequence whose events are remembered."""

    forgotten_upto: int
    """Greatest AN of the forgotten ones."""


class RecentEvents:
    """First copies by sequence and AN; the oldest are forgotten."""

    def __init__(self, most: int = MOST_EVENTS) -> None:
        self._most = most
        self._copies: dict[tuple[IRememberedSequence, int], FirstCopy] = {}
        self._unsettled: deque[tuple[IRememberedSequence, int, FirstCopy]] = deque(maxlen=most)
        """Those that `take_settled` has not returned."""

    def __len__(self) -> int:
        return len(self._copies)

    def find(self, sequence: IRememberedSequence, an: int) -> FirstCopy | None:
        return self._copies.get((sequence, an))

    def add(self, sequence: IRememberedSequence, an: int, copy: FirstCopy) -> None:
        copies = self._copies
        self._unsettled.append((sequence, an, copy))
        copies[sequence, an] = copy
        if len(copies) > self._most:
            oldest, oldest_an = next(iter(copies))
            del copies[oldest, oldest_an]
            oldest.forgotten_upto = max(oldest.forgotten_upto, oldest_an)

    def take_settled(self, before: float) -> Iterator[tuple[IRememberedSequence, int, FirstCopy]]:
        """Yield each event once whose first copy came before a time."""
        unsettled = self._unsettled
        while unsettled and unsettled[0][2].received_at < before:
            yield unsettled.popleft()
