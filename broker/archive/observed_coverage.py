"""The coverage by other writers that one archive writer has observed.

The loss of an origin's newest manifest leaves no missing range, so other writers record its end.
For maintenance writers they record the newest number.
"""

from __future__ import annotations

from typing import Final, TypeVar

from broker.archive.archive_state import ArchiveState
from broker.archive.layout import MAINTENANCE_PREFIX
from broker.archive.manifest import Manifest
from broker.event.place import Mark

#: Entries of one manifest: some kilobytes.
MAX_ENTRIES: Final = 128
#: Ms for which entries wait for a manifest.
REPORT_INTERVAL_MS: Final = 60_000

_Value = TypeVar("_Value", Mark, int)


class ObservedCoverage:
    def __init__(self, name: str) -> None:
        self._name = name
        self._observed = Manifest()
        self._reported: Manifest | None = None
        self._reported_at = 0

    def observe(self, state: ArchiveState, own: Manifest) -> None:
        """`own` is this writer's manifest."""
        if self._reported is None:
            self._reported = Manifest(ends=dict(own.ends), pages=dict(own.pages))
        ends = {o: end for o, end in state.covered_ends.items() if o != self._name}
        pages = {w: n for w, n in state.newest_pages.items() if w.startswith(MAINTENANCE_PREFIX)}
        self._observed.merge(Manifest(ends=ends, pages=pages))

    def unreported(self) -> Manifest:
        """Return entries without a manifest, those reported longest ago first."""
        reported = self._reported or Manifest()
        ends, pages = (
            _newer_entries(self._observed.ends, reported.ends),
            _newer_entries(self._observed.pages, reported.pages),
        )
        return Manifest(ends=ends, pages=pages)

    def is_due(self, state: ArchiveState, now: int) -> bool:
        """Return True if these entries alone are due. `now` is in ms since 1970."""
        entries = self.unreported()
        if not (entries.ends or entries.pages):
            return False
        is_lost = any(end > state.covered_ends.get(o, (0, 0)) for o, end in entries.ends.items())
        return (
            is_lost or bool(state.problems) or not 0 <= now - self._reported_at < REPORT_INTERVAL_MS
        )

    def mark_reported(self, entries: Manifest, now: int) -> None:
        self._reported_at = now
        reported = self._reported = self._reported or Manifest()
        for place in (*entries.ends, *entries.pages):
            # The order is that of the last report.
            reported.ends.pop(place, None)
            reported.pages.pop(place, None)
        reported.merge(entries)


def _newer_entries(observed: dict[str, _Value], reported: dict[str, _Value]) -> dict[str, _Value]:
    order = {place: number for number, place in enumerate(reported)}
    new = [each for each in observed if each not in reported or observed[each] > reported[each]]
    new.sort(key=lambda each: order.get(each, -1))
    return {each: observed[each] for each in new[:MAX_ENTRIES]}
