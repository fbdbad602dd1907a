"""Ranges that the archive lacks, since when: archivers write them again within seconds."""

from __future__ import annotations

from broker.archive.intervals import Interval
from broker.archive.state import HEALING_MS, ArchiveState


class NoticedHoles:
    """Remembers for one process when it saw each missing range first.

    A manifest that is deleted leaves a hole in what is covered. Nothing in the archive says since
    when, so a reader would wait each time for a range that nobody has any more.
    """

    def __init__(self) -> None:
        self._state: ArchiveState | None = None
        self._seen: dict[tuple[str, Interval], int] = {}

    def healing(self, state: ArchiveState, now: int) -> frozenset[str]:
        """Origins of which something was damaged or missing a moment ago. `now` is in ms since
        1970."""
        if state is not self._state:
            self._state = state
            holes = ((origin, each) for origin, found in state.missing.items() for each in found)
            self._seen = {hole: self._seen.get(hole, now) for hole in holes}
        missing = {origin for (origin, _), at in self._seen.items() if at > now - HEALING_MS}
        return state.healing(now) | missing
