"""Work limit of a partial evaluation.

Reading a large text or joining many conditions takes as long as visiting nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Final

from broker.matching.partial.formula import Formula, operand_count


class Undecidable(Exception):
    """A shape does not decide an expression; the text is the reason for `explain`."""


#: Bytes of a constant text per unit.
_BYTES_PER_UNIT = 32


class TooExpensive(Exception):
    """The evaluation exceeds its work limit; the text is for `explain`."""


#: Work between two readings of the clock.
_WORK_A_READING: Final = 64
#: Seconds between two readings beyond which the machine has paused.
_MAX_READING_SECONDS: Final = 0.02


class OutOfTime(TooExpensive):
    """The evaluation exceeds its time."""


class WorkBudget:
    """Counts the work of one evaluation; beyond `limit`, `TooExpensive` is raised.

    Beyond `seconds` of `clock`, if given, `OutOfTime` is raised: a unit of work takes 0.1 to 20 us.
    """

    __slots__ = ("_clock", "_next_reading", "_now", "_seconds_left", "limit", "spent")

    def __init__(
        self, limit: int, clock: Callable[[], float] | None = None, seconds: float = inf
    ) -> None:
        self.spent = 0
        self.limit = limit
        self._clock = clock
        self._seconds_left = seconds
        self._next_reading = inf
        if clock is not None:
            self._now = clock()
            self._next_reading = 0

    def spend(self, amount: int = 1) -> None:
        self.spent += amount
        if self.spent > self.limit:
            raise TooExpensive("evaluating it on a shape takes too many steps")
        if self.spent > self._next_reading:
            self._read_clock()

    @property
    def is_out_of_time(self) -> bool:
        return self._seconds_left < 0

    def _read_clock(self) -> None:
        assert self._clock is not None
        before, self._now = self._now, self._clock()
        self._seconds_left -= min(self._now - before, _MAX_READING_SECONDS)
        if self.is_out_of_time:
            raise OutOfTime("evaluating it takes too long")
        self._next_reading = self.spent + _WORK_A_READING

    def spend_on_join(self, parts: Sequence[Formula]) -> Sequence[Formula]:
        total = 0
        for part in parts:
            total += operand_count(part)
        self.spend(total >> 1)
        return parts

    def spend_on_text(self, text: bytes) -> None:
        self.spend(1 + len(text) // _BYTES_PER_UNIT)
