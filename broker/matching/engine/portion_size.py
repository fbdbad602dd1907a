"""The number of documents that are matched at once under a time limit.

Larger portions cost less per document, but unfinished documents are matched again.
"""

from __future__ import annotations

from math import inf
from typing import Final

#: Size of the first portion.
INITIAL_SIZE: Final = 64
#: Larger portions cost no less per document.
MAX_SIZE: Final = 512
#: Minimum size of the first portion of a call.
MIN_SIZE: Final = 16
#: Planned share of the remaining time, since documents may cost more than the last ones.
_PLANNED_SHARE: Final = 0.75
#: Limits the estimate's growth after one portion.
_MAX_GROWTH: Final = 2.0


class PortionSize:
    """Chooses the next portion from the mean time of the previous documents."""

    def __init__(self) -> None:
        self._seconds_each = 0.0
        self._first_size = 0

    def next_portion(self, done: int, documents: int, seconds_left: float, seconds: float) -> range:
        """Return the indexes of the next documents. `seconds_left` remain of `seconds`.

        Empty after the last document, or if time is left for few documents only.
        """
        size = documents
        if seconds < inf:
            planned = max(0.0, seconds_left - (1 - _PLANNED_SHARE) * seconds)
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
        """Update the mean time of a document. One slow portion has limited effect."""
        if not documents:
            return
        seconds_each = seconds / documents
        previous = self._seconds_each
        self._seconds_each = (
            (previous + min(seconds_each, _MAX_GROWTH * previous)) / 2 if previous else seconds_each
        )
