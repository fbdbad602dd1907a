"""Numbered pieces into their order: each once, and what is missing known at once (D43, D44)."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from broker.transport.arq.wire import MAX_RANGES, Range

#: What comes twice was asked for too early: patience grows by this, up to so many seconds, ...
_DELAY_GROWTH: Final = 1.25
_MAX_REORDER_DELAY: Final = 0.05
#: ... and shrinks by this with each that comes once.
_DELAY_DECAY: Final = 0.98

Piece = TypeVar("Piece")


class ReceiveWindow(Generic[Piece]):
    """The receiving end of one sequence of numbers.

    Holds at most `window` pieces that were not taken; what is further ahead is dropped and counted.
    """

    def __init__(
        self, window: int, reorder_delay: float, first: int = 1, *, credit: bool = True
    ) -> None:
        """Without `credit` only what waits behind a hole counts against the window."""
        #: All up to this number are there.
        self.received = first - 1
        #: The highest number that has come, or that is known to have been sent.
        self.newest = first - 1
        #: When each number was first known to be missing; in rising order.
        self.missing: dict[int, float] = {}
        self.duplicates = 0
        self.beyond = 0
        self._window = window
        self._credit = credit
        self._min_reorder_delay = reorder_delay
        self._reorder_delay = reorder_delay  # seconds for which a number may be late
        self._ready: list[Piece] = []
        self._out_of_order: dict[int, Piece] = {}

    @property
    def limit(self) -> int:
        """The highest number for which there is room."""
        return self.received - (len(self._ready) if self._credit else 0) + self._window

    def insert(self, number: int, piece: Piece, now: float) -> bool:
        """Take a piece; False if it is old, or too far ahead."""
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
        """Numbers up to `highest` have been sent, as far as there is room for them."""
        for number in range(self.newest + 1, min(highest, self.limit) + 1):
            self.missing[number] = now
            self.newest = number

    def take_ready(self) -> list[Piece]:
        """The pieces that follow those taken before, in order."""
        ready, self._ready = self._ready, []
        return ready

    @property
    def ready_count(self) -> int:
        """Pieces that can be taken."""
        return len(self._ready)

    def buffered(self) -> list[Piece]:
        """All that is here and was not taken, in no order."""
        return [*self._ready, *self._out_of_order.values()]

    def last_ready(self) -> Piece | None:
        """The last piece that can be taken."""
        return self._ready[-1] if self._ready else None

    def skip_to(self, number: int) -> int:
        """Give up what is missing below `number`; how many that was. What was there below it
        becomes ready with the rest: its order tells where the holes are."""
        # What is beyond all that is known is not counted through: whoever lies about a number must
        # not keep us busy.
        lost = max(0, number - 1 - self.newest)
        while self.received < min(number - 1, self.newest):
            following = self.received + 1
            self.received = following
            if following in self._out_of_order:
                self._ready.append(self._out_of_order.pop(following))
            else:
                self.missing.pop(following, None)
                lost += 1
        self.received = max(self.received, number - 1)
        self.newest = max(self.newest, self.received)
        self._advance()
        return lost

    def missing_ranges(self, now: float, most: int = MAX_RANGES) -> list[Range]:
        """What is missing rather than late, in ranges; at most `most`."""
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
                if len(ranges) == most:
                    return ranges
            first, count = number, 1
        if count:
            ranges.append((first, count))
        return ranges

    def next_missing_at(self, after: float) -> float | None:
        """When all that is only late at `after` will be missing; None if nothing is late."""
        for since in reversed(self.missing.values()):
            ripe = since + self._reorder_delay
            return ripe if ripe > after else None
        return None

    def _advance(self) -> None:
        while (
            self._out_of_order
            and (piece := self._out_of_order.pop(self.received + 1, None)) is not None
        ):
            self.received += 1
            self._ready.append(piece)
