"""How many documents are matched at once, where a match has to stop when time is up.

More at once cost less each; but what was matched at once and could not be finished in time, for
there are documents among it that have to be looked at by themselves, is matched again.
"""

from __future__ import annotations

from math import inf
from typing import Final

#: The first ones of all, of which nothing is known.
INITIAL_SIZE: Final = 64
#: More would cost no less each.
MAX_SIZE: Final = 512
#: As many are always begun when nothing is done yet.
MIN_SIZE: Final = 16
#: Of the time that there is: documents may turn out dearer than the last ones.
_PLANNED_SHARE: Final = 0.75
#: What a document is thought to take grows by half of this at once.
_MAX_GROWTH: Final = 2.0


class PortionSize:
    """Between two looks at the clock: as many as there is time for, if they take what the last ones
    took."""

    def __init__(self) -> None:
        self._seconds_each = 0.0
        self._first_size = 0

    def next_portion(self, done: int, documents: int, left: float, seconds: float) -> range:
        """The places of the next ones, of so many, when of `seconds` so many are left.

        There are none when all are done, or there is time for few more only.
        """
        size = documents
        if seconds < inf:
            planned = max(0.0, left - (1 - _PLANNED_SHARE) * seconds)
            size = (
                INITIAL_SIZE
                if not self._seconds_each
                else min(int(planned / self._seconds_each), MAX_SIZE)
            )
            if not done:
                size = self._first_size = max(size, MIN_SIZE)
            elif size < self._first_size / 2:
                size = 0
        return range(done, min(done + size, documents))

    def record_time(self, documents: int, seconds: float) -> None:
        """So many took so long. Pauses and single dear ones are not taken for the rule at once."""
        if not documents:
            return
        each = seconds / documents
        known = self._seconds_each
        self._seconds_each = (known + min(each, _MAX_GROWTH * known)) / 2 if known else each
