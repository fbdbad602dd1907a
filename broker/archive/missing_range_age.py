"""Times at which this process first saw each missing range of the archive."""

from __future__ import annotations

from broker.archive.archive_state import HEALING_MS, ArchiveState
from broker.archive.interval import Interval


class MissingRangeAges:
    """First sight of each missing range, for one process.

    Archivers write a missing range again within seconds. The archive does not record its age, and
    readers must not wait for ever.
    """

    def __init__(self) -> None:
        self._state: ArchiveState | None = None
        self._first_seen: dict[tuple[str, Interval], int] = {}

    def healing_origins(self, state: ArchiveState, now: int) -> frozenset[str]:
        """Return origins with places damaged or missing for less than `HEALING_MS`.

        `now` is in ms since 1970.
        """
        if state is not self._state:
            self._state = state
            current = (
                (origin, each) for origin, found in state.missing_ranges.items() for each in found
            )
            self._first_seen = {
                missing_range: self._first_seen.get(missing_range, now) for missing_range in current
            }
        missing = {origin for (origin, _), at in self._first_seen.items() if at > now - HEALING_MS}
        return state.healing_origins(now) | missing
