"""The receive window: puts numbered pieces in order, once each, and tracks missing numbers (D43,
D44).
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from broker.transport.arq.wire import MAX_RANGES, Range

#: Factors of the wait before a request: after a duplicate, which was requested too early, ...
_DELAY_GROWTH: Final = 1.25
_MAX_REORDER_DELAY: Final = 0.05
#: ... and after a piece that arrived once.
_DELAY_DECAY: Final = 0.98

Piece = TypeVar("Piece")


class ReceiveWindow(Generic[Piece]):
    """The receiving end of one numbered sequence: pieces in order, once each (D43, D44).

    It holds at most `window` unread pieces. Pieces further ahead are dropped and counted. Without
    `credit`, only pieces behind a missing one count.
    """

    def __init__(
        self, window: int, reorder_delay: float, first: int = 1, *, credit: bool = True
    ) -> None:
        #: Highest number up to which all have arrived.
        self.received = first - 1
        #: Highest number that has arrived or is known to have been sent.
        self.newest = first - 1
        #: Time since which each number is missing, in rising order.
        self.missing: dict[int, float] = {}
        self.duplicates = 0
        self.beyond = 0
        self._window = window
        self._credit = credit
        self._min_reorder_delay = reorder_delay
        self._reorder_delay = reorder_delay  # until a late number is requested
        self._ready: list[Piece] = []
        self._out_of_order: dict[int, Piece] = {}

    @property
    def limit(self) -> int:
        return self.received - (len(self._ready) if self._credit else 0) + self._window

    def insert(self, number: int, piece: Piece, now: float) -> bool:
        """Return False for a duplicate, or beyond the window."""
        if number == self.received + 1 == self.newest + 1 and number <= self.limit:
            self.received = self.newest = number
            self._ready.append(piece)
            return True
        if number <= self.received or number in self._out_of_order:
            self.duplicates += 1
            self._reorder_delay = min(self._reorder_delay * _DELAY_GROWTH, _MAX_REORDER_DELAY)
            return False
        if number > self.limit:
            self.beyond += 1
            return False
        self.mark_sent_until(number, now)
        del self.missing[number]
        self._reorder_delay = max(self._reorder_delay * _DELAY_DECAY, self._min_reorder_delay)
        self._out_of_order[number] = piece
        self._advance()
        return True

    def mark_sent_until(self, highest: int, now: float) -> None:
        """Record sent numbers, as far as there is room."""
        for number in range(self.newest + 1, min(highest, self.limit) + 1):
            self.missing[number] = now
            self.newest = number

    def take_ready(self) -> list[Piece]:
        ready, self._ready = self._ready, []
        return ready

    @property
    def ready_count(self) -> int:
        return len(self._ready)

    def buffered(self) -> list[Piece]:
        return [*self._ready, *self._out_of_order.values()]

    def last_ready(self) -> Piece | None:
        return self._ready[-1] if self._ready else None

    def skip_to(self, number: int) -> int:
        """Give up missing numbers, and return their count."""
        # A false number must not cost time.
        skipped = max(0, number - 1 - self.newest)
        while self.received < min(number - 1, self.newest):
            following = self.received + 1
            self.received = following
            if following in self._out_of_order:
                self._ready.append(self._out_of_order.pop(following))
            else:
                self.missing.pop(following, None)
                skipped += 1
        self.received = max(self.received, number - 1)
        self.newest = max(self.newest, self.received)
        self._advance()
        return skipped

    def make_room(self, number: int) -> None:
        """Give up the oldest missing numbers until `number` is within the limit."""
        if number > self.limit and (not self.missing or number > self.limit + self._window):
            self.skip_to(number - self._window // 2)
        while self.missing and number > self.limit:
            self.skip_to(next(iter(self.missing)) + 1)

    def give_up_late(self, now: float, patience: float) -> None:
        """Give up numbers missing for longer than `patience`."""
        last_given_up = 0
        for number, since in self.missing.items():
            if now < since + patience:
                break
            last_given_up = number
        if last_given_up:
            self.skip_to(last_given_up + 1)

    def missing_ranges(self, now: float, max_ranges: int = MAX_RANGES) -> list[Range]:
        """Return ranges of numbers that are missing, not only late."""
        ranges: list[Range] = []
        first = count = 0
        for number, since in self.missing.items():
            if now < since + self._reorder_delay:
                break
            if number == first + count:
                count += 1
                continue
            if count:
                ranges.append((first, count))
                if len(ranges) == max_ranges:
                    return ranges
            first, count = number, 1
        if count:
            ranges.append((first, count))
        return ranges

    def next_missing_at(self, now: float) -> float | None:
        """Return the time at which all late numbers count as missing."""
        for since in reversed(self.missing.values()):
            missing_at = since + self._reorder_delay
            return missing_at if missing_at > now else None
        return None

    def _advance(self) -> None:
        while (
            self._out_of_order
            and (piece := self._out_of_order.pop(self.received + 1, None)) is not None
        ):
            self.received += 1
            self._ready.append(piece)
