"""The epoch of the query that is in force at each AN of a sequence (X4)."""

from __future__ import annotations

from typing import Final

#: Behind every AN.
NEVER: Final = 2**64
_MOST_STEPS: Final = 64


class EpochSteps:
    """Rising epochs, each of which counts behind an AN."""

    def __init__(self) -> None:
        self._steps: list[tuple[int, int]] = [(0, 0)]

    @property
    def newest(self) -> int:
        return self._steps[-1][1]

    @property
    def newest_an(self) -> int:
        """The AN behind which the newest epoch counts."""
        return self._steps[-1][0]

    def add(self, an: int, epoch: int) -> None:
        """Let an epoch count behind an AN; without effect if it is not newer."""
        if epoch <= self.newest:
            return
        an = max(an, self.newest_an)
        if an == self.newest_an:
            self._steps.pop()
        self._steps.append((an, epoch))
        if len(self._steps) > _MOST_STEPS:
            # The oldest epoch may select less than the next one.
            del self._steps[1]

    def epoch_at(self, an: int) -> int:
        """Return the epoch that counts for an event."""
        for begin, epoch in reversed(self._steps):
            if an > begin:
                return epoch
        return self._steps[0][1]

    def begins_between(self, previous: int, upto: int) -> list[int]:
        """Return the ANs inside a range behind which another epoch counts."""
        return [begin for begin, _ in self._steps if previous < begin < upto]

    def reached_after(self, epoch: int) -> int:
        """Return the AN behind which an epoch, or a later one, counts; `NEVER`: it does not."""
        for begin, each in self._steps:
            if each >= epoch:
                return begin
        return NEVER
