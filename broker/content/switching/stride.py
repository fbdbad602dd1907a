"""How many documents are matched at once, where a match has to stop when time is up."""

from __future__ import annotations

from math import inf
from typing import Final

LEAST: Final = 64
#: More would cost no less each.
MOST: Final = 512


class Stride:
    """Between two looks at the clock; as long as the last ones had time for."""

    def __init__(self) -> None:
        self._documents = LEAST

    def at(self, done: int, documents: int, seconds: float) -> range:
        """The places of the next ones, where so many of a batch are done and time is short."""
        size = documents if seconds == inf else self._documents
        return range(done, min(done + size, documents))

    def took(self, documents: int, taken: float, seconds: float) -> None:
        """So many took so long, of `seconds`."""
        if taken > seconds:
            self._documents = max(self._documents // 2, LEAST)
        elif documents == self._documents and taken < seconds / 2:
            self._documents = min(self._documents * 2, MOST)
