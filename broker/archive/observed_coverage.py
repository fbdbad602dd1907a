"""One archive writer's record of how far the manifests of all writers cover each origin.

A manifest between two others leaves a hole where it is lost. The newest one of an origin leaves
none, so others say how far it went. For carers they say the numbers of their manifests.
"""

from __future__ import annotations

from typing import Final, TypeVar

from broker.archive.archive_state import ArchiveState
from broker.archive.layout import MAINTENANCE_PREFIX
from broker.archive.manifest import Manifest
from broker.event.place import Mark

#: What one manifest says of others, at most: some kilobytes.
MAX_ENTRIES: Final = 128
#: How long (ms) a writer that has nothing else to say waits with it.
REPORT_INTERVAL_MS: Final = 60_000

_Value = TypeVar("_Value", Mark, int)


class ObservedCoverage:
    """One writer's."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._observed = Manifest()
        self._reported: Manifest | None = None
        self._reported_at = 0

    def observe(self, state: ArchiveState, reported: Manifest) -> None:
        """Note what there is now. `said` is all that this writer has said."""
        if self._reported is None:
            self._reported = Manifest(ends=dict(reported.ends), pages=dict(reported.pages))
        ends = {o: end for o, end in state.covered_ends.items() if o != self._name}
        pages = {w: n for w, n in state.newest_pages.items() if w.startswith(MAINTENANCE_PREFIX)}
        self._observed.merge(Manifest(ends=ends, pages=pages))

    def unreported(self) -> Manifest:
        """What is to be said of it, the oldest first."""
        reported = self._reported or Manifest()
        ends, pages = (
            _newer_entries(self._observed.ends, reported.ends),
            _newer_entries(self._observed.pages, reported.pages),
        )
        return Manifest(ends=ends, pages=pages)

    def is_due(self, state: ArchiveState, now: int) -> bool:
        """Whether it is to be said though there is nothing else to say; `now` is in ms since
        1970."""
        entries = self.unreported()
        if not (entries.ends or entries.pages):
            return False
        is_lost = any(end > state.covered_ends.get(o, (0, 0)) for o, end in entries.ends.items())
        return (
            is_lost or bool(state.problems) or not 0 <= now - self._reported_at < REPORT_INTERVAL_MS
        )

    def mark_reported(self, entries: Manifest, now: int) -> None:
        """It is in a manifest."""
        self._reported_at = now
        reported = self._reported = self._reported or Manifest()
        for place in (*entries.ends, *entries.pages):
            # What was said last is said again last.
            reported.ends.pop(place, None)
            reported.pages.pop(place, None)
        reported.merge(entries)


def _newer_entries(observed: dict[str, _Value], reported: dict[str, _Value]) -> dict[str, _Value]:
    order = {place: number for number, place in enumerate(reported)}
    new = [each for each in observed if each not in reported or observed[each] > reported[each]]
    new.sort(key=lambda each: order.get(each, -1))
    return {each: observed[each] for each in new[:MAX_ENTRIES]}
