"""What the archive has: the manifests of all writers together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType

from broker.dtd.reference import DtdReference
from broker.event.place import Mark
from broker.store.archive.intervals import Interval, Intervals, merged, reach, without
from broker.store.archive.journal import Page, Pages
from broker.store.archive.listed import ArchivedFile, DtdText
from broker.store.archive.manifest import Manifest, SetAside


class ArchiveState:
    """A moment of the archive. Never changes."""

    def __init__(self, everything: Manifest, problems: Mapping[str, str]) -> None:
        """`everything` is what all manifests say; `problems` which of them can not be read."""
        self.everything = everything
        self.problems = problems
        """Manifests that are damaged or missing, by path. What only they say is not known."""
        gone = everything.removes.keys() | everything.deleted
        self.files: Mapping[str, ArchivedFile] = MappingProxyType(
            {
                path: file
                for path, file in everything.adds.items()
                if path not in gone and path not in everything.aside
            }
        )
        """All that can be read, by path."""
        self.aside: Mapping[str, SetAside] = MappingProxyType(
            {path: why for path, why in everything.aside.items() if path not in gone}
        )
        """Damaged files, by path."""

    @cached_property
    def lost(self) -> Mapping[str, Intervals]:
        """By origin what lies between the first and last places of damaged files, if nobody has
        written it again. Not all of it is missing: other files have places there."""
        lost: dict[str, list[Interval]] = defaultdict(list)
        for path in self.aside.keys() - self.everything.heals:
            file = self.everything.adds.get(path)
            for origin, interval in file.intervals.items() if file else ():
                lost[origin].append(interval)
        return {origin: merged(intervals) for origin, intervals in lost.items()}

    @cached_property
    def covered(self) -> Mapping[str, Intervals]:
        """By origin the places of which the archive has all that was to be archived."""
        return {
            origin: without(intervals, (*self._forgotten(origin), *self.lost.get(origin, ())))
            for origin, intervals in self.everything.covers.items()
        }

    def covers(self, origin: str, after: Mark, upto: Mark) -> bool:
        """Whether the archive has everything in (after, upto]."""
        return self.upto(origin, after) >= upto

    def upto(self, origin: str, after: Mark) -> Mark:
        """How far the archive goes on from `after` without a hole; `after` if not at all."""
        return reach(self.covered.get(origin, ()), after)

    @cached_property
    def dtds(self) -> Mapping[DtdReference, DtdText]:
        """The text of each DTD; of several the one that was archived first."""
        found: dict[DtdReference, DtdText] = {}
        for text in sorted(self.everything.dtds):
            found.setdefault(text.reference, text)
        return found

    def healed_by(self, covers: Iterable[tuple[str, Mark, Mark]]) -> set[str]:
        """The damaged files whose places are all in `covers`."""
        ranges: dict[str, list[Interval]] = defaultdict(list)
        for origin, after, upto in covers:
            ranges[origin].append((after, upto))
        healed = set()
        for path in self.aside.keys() - self.everything.heals:
            file = self.everything.adds.get(path)
            if file is not None and all(
                not without([interval], ranges.get(origin, ()))
                for origin, interval in file.intervals.items()
            ):
                healed.add(path)
        return healed

    def forgotten(self, origin: str) -> Mark:
        """Up to where retention took what the archive had of an origin."""
        return max((upto for _, upto in self._forgotten(origin)), default=(0, 0))

    def _forgotten(self, origin: str) -> Iterable[Interval]:
        return self.everything.forgets.get(origin, ())


class StateReading:
    """Merges manifests as they come: what was merged once is not read again."""

    def __init__(self) -> None:
        self._merged: dict[str, tuple[tuple[Page, ...], Manifest]] = {}
        self._journals: Mapping[str, Pages] = {}
        self._state = ArchiveState(Manifest(), {})

    def state(self, journals: Mapping[str, Pages]) -> ArchiveState:
        """The state that these manifests tell; the same object as before if nothing is new."""
        if journals == self._journals:
            return self._state
        everything = Manifest()
        for writer in sorted(journals):
            everything.merge(self._writer(writer, journals[writer].pages))
        problems: dict[str, str] = {}
        for writer, pages in journals.items():
            repeated, _ = everything.absorbed.get(writer, (0, 0))
            # Pages that others repeat may be half deleted.
            if pages.newest > repeated:
                problems |= pages.problems
        self._merged = {writer: self._merged[writer] for writer in journals}
        self._journals = journals
        self._state = ArchiveState(everything, problems)
        return self._state

    def said_by(self, name: str) -> Manifest:
        """What one writer says, as of the last state."""
        return self._merged[name][1] if name in self._merged else Manifest()

    def _writer(self, writer: str, pages: tuple[Page, ...]) -> Manifest:
        known, manifest = self._merged.get(writer, ((), Manifest()))
        if pages[: len(known)] != known:
            known, manifest = (), Manifest()
        for page in pages[len(known) :]:
            manifest.merge(page.body)
        self._merged[writer] = (pages, manifest)
        return manifest
