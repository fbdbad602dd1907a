"""One archive writer's record of how far the manifests of all writers cover each origin.

A manifest between two others leaves a hole where it is lost. The newest one of an origin leaves
none, so others say how far it went. For carers they say the numbers of their manifests.
"""

from __future__ import annotations

from typing import Final, TypeVar

from broker.archive.layout import CARER
from broker.archive.manifest import Manifest
from broker.archive.state import ArchiveState
from broker.event.place import Mark

#: What one manifest says of others, at most: some kilobytes.
MOST_NEWS: Final = 128
#: How long (ms) a writer that has nothing else to say waits with it.
WITNESS_EVERY: Final = 60_000

_Value = TypeVar("_Value", Mark, int)


class Witness:
    """One writer's."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._seen = Manifest()
        self._said: Manifest | None = None
        self._at = 0

    def look(self, state: ArchiveState, said: Manifest) -> None:
        """Note what there is now. `said` is all that this writer has said."""
        if self._said is None:
            self._said = Manifest(ends=dict(said.ends), pages=dict(said.pages))
        ends = {o: end for o, end in state.ends.items() if o != self._name}
        pages = {w: n for w, n in state.newest.items() if w.startswith(CARER)}
        self._seen.merge(Manifest(ends=ends, pages=pages))

    def news(self) -> Manifest:
        """What is to be said of it, the oldest first."""
        said = self._said or Manifest()
        ends, pages = _news(self._seen.ends, said.ends), _news(self._seen.pages, said.pages)
        return Manifest(ends=ends, pages=pages)

    def is_due(self, state: ArchiveState, now: int) -> bool:
        """Whether it is to be said though there is nothing else to say; `now` is in ms since
        1970."""
        news = self.news()
        if not (news.ends or news.pages):
            return False
        is_lost = any(end > state.ends.get(o, (0, 0)) for o, end in news.ends.items())
        return is_lost or bool(state.problems) or not 0 <= now - self._at < WITNESS_EVERY

    def was_said(self, news: Manifest, now: int) -> None:
        """It is in a manifest."""
        self._at = now
        said = self._said = self._said or Manifest()
        for place in (*news.ends, *news.pages):
            # What was said last is said again last.
            said.ends.pop(place, None)
            said.pages.pop(place, None)
        said.merge(news)


def _news(seen: dict[str, _Value], said: dict[str, _Value]) -> dict[str, _Value]:
    order = {place: number for number, place in enumerate(said)}
    new = [each for each in seen if each not in said or seen[each] > said[each]]
    new.sort(key=lambda each: order.get(each, -1))
    return {each: seen[each] for each in new[:MOST_NEWS]}
