"""The merged manifests of all writers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Final

from broker.archive.interval import (
    Interval,
    Intervals,
    contiguous_end,
    difference,
    intersection,
    union,
)
from broker.archive.journal import MISSING, Page, WriterPages, page_path
from broker.archive.layout import MANIFESTS
from broker.archive.manifest import Manifest, Range, Ranges, SetAside
from broker.archive.manifest_entry import ArchivedFile, DtdText
from broker.dtd.reference import DtdReference
from broker.event.place import Mark

#: Ms during which archivers may write damaged places again; they check every few seconds.
HEALING_MS: Final = 60_000


class ArchiveState:
    def __init__(
        self,
        manifest: Manifest,
        unreadable: Mapping[str, str],
        newest: Mapping[str, int] | None = None,
    ) -> None:
        """`manifest` merges all readable manifests; `unreadable` has the reason for the others, by
        path. `newest` has each writer's highest manifest number."""
        self.manifest = manifest
        self.newest_pages = newest or {}
        self.unreadable = unreadable
        """Damaged or missing manifests: the reason, by path."""
        self.problems = {p: why for p, why in unreadable.items() if p not in manifest.given_up}
        """Unreadable manifests that were not given up.

        Their content is unknown, but may be recovered.
        """
        removed = manifest.removes.keys() | manifest.deleted
        self.files: Mapping[str, ArchivedFile] = MappingProxyType(
            {
                path: file
                for path, file in manifest.adds.items()
                if path not in removed and path not in manifest.aside
            }
        )
        """Readable files, by path."""
        self.aside: Mapping[str, SetAside] = MappingProxyType(
            {path: why for path, why in manifest.aside.items() if path not in removed}
        )
        """Damaged files, by path."""

    def with_manifest(self, manifest: Manifest) -> ArchiveState:
        merged = Manifest()
        merged.merge(self.manifest)
        merged.merge(manifest)
        return ArchiveState(merged, self.unreadable, self.newest_pages)

    def lost_ranges_of(self, file: ArchivedFile) -> Mapping[str, Intervals]:
        """Return the places lost with a damaged file, without those written again.

        Other files may hold some of them.
        """
        healed = self.manifest.heals.get(file.path, {})
        left = {o: difference([each], healed.get(o, ())) for o, each in file.intervals.items()}
        return {origin: intervals for origin, intervals in left.items() if intervals}

    @cached_property
    def damaged_files(self) -> Mapping[str, ArchivedFile]:
        """Files set aside of which places are still lost."""
        adds = self.manifest.adds
        return {p: adds[p] for p in self.aside if p in adds and self.lost_ranges_of(adds[p])}

    @cached_property
    def healed_files(self) -> Collection[str]:
        """Files set aside of which no place is lost any more."""
        return self.aside.keys() & self.manifest.adds.keys() - self.damaged_files.keys()

    @cached_property
    def lost_ranges(self) -> Mapping[str, Intervals]:
        damaged_ranges: dict[str, list[Interval]] = defaultdict(list)
        for file in self.damaged_files.values():
            for origin, intervals in self.lost_ranges_of(file).items():
                damaged_ranges[origin] += intervals
        return {origin: union(intervals) for origin, intervals in damaged_ranges.items()}

    def healing_origins(self, now: int) -> frozenset[str]:
        """Return the origins whose logs may write lost places again.

        `now` is in ms since 1970.
        """
        return frozenset(
            origin
            for path, file in self.damaged_files.items()
            if self.aside[path].at > now - HEALING_MS
            for origin in self.lost_ranges_of(file)
        )

    @cached_property
    def covered(self) -> Mapping[str, Intervals]:
        """Places of which the archive has every event.

        The entry is empty if all manifests of the origin are lost.
        """
        return dict.fromkeys(self.lost_ends, ()) | {
            origin: difference(
                intervals, (*self._forgotten_ranges(origin), *self.lost_ranges.get(origin, ()))
            )
            for origin, intervals in self.manifest.covers.items()
        }

    @cached_property
    def covered_ends(self) -> Mapping[str, Mark]:
        return {origin: each[-1][1] for origin, each in self.manifest.covers.items() if each}

    @cached_property
    def lost_ends(self) -> Mapping[str, Mark]:
        """Last place that another writer saw covered, if the newest manifests are lost."""
        return {
            origin: end
            for origin, end in self.manifest.ends.items()
            if end > max(self.covered_ends.get(origin, (0, 0)), self.forgotten_upto(origin))
        }

    @cached_property
    def missing_ranges(self) -> Mapping[str, Intervals]:
        """Uncovered places before the last covered one."""
        found: dict[str, Intervals] = {}
        for origin, covered in self.covered.items():
            ends = [mark for _, mark in covered[-1:]]
            end = max((*ends, self.lost_ends.get(origin, (0, 0))))
            ranges_found = difference([(self.forgotten_upto(origin), end)], covered)
            # Equal offsets enclose no place: they continue through epochs.
            if found_here := tuple(each for each in ranges_found if each[0][1] < each[1][1]):
                found[origin] = found_here
        return found

    def covers(self, origin: str, after: Mark, upto: Mark) -> bool:
        return self.covered_upto(origin, after) >= upto

    def covered_upto(self, origin: str, after: Mark) -> Mark:
        """Return the end of the covered range at `after`, else `after`."""
        return contiguous_end(self.covered.get(origin, ()), after)

    def next_covered(self, origin: str, after: Mark) -> Mark | None:
        """Return the first covered mark from `after` on, or None."""
        return min((a for a, _ in self.covered.get(origin, ()) if a >= after), default=None)

    @cached_property
    def dtds(self) -> Mapping[DtdReference, DtdText]:
        """DTD texts by name: the first archived one is the default.

        Each text is also present under its content hash.
        """
        found: dict[DtdReference, DtdText] = {}
        for text in sorted(self.manifest.dtds):
            reference = text.reference
            found.setdefault(reference, text)
            found[DtdReference(reference.type, reference.version, text.sha256)] = text
        return found

    @cached_property
    def variants(self) -> Mapping[str, Mapping[DtdReference, DtdReference]]:
        """The DTD texts that replace the defaults, by origin."""
        found: dict[str, dict[DtdReference, DtdReference]] = defaultdict(dict)
        for use in sorted(self.manifest.uses):
            reference = DtdReference(use.text.type, use.text.version)
            counts = self.dtds.get(reference)
            if counts is None or counts.sha256 != use.text.variant:
                found[use.origin][reference] = use.text
        return dict(found)

    def ranges_healed_by(self, covers: Iterable[Range]) -> Mapping[str, Ranges]:
        """Return the lost places that `covers` contains, by path."""
        ranges: dict[str, list[Interval]] = defaultdict(list)
        for origin, after, upto in covers:
            ranges[origin].append((after, upto))
        found = {
            path: {
                origin: list(intersection(damaged_ranges, ranges.get(origin, ())))
                for origin, damaged_ranges in self.lost_ranges_of(file).items()
            }
            for path, file in self.damaged_files.items()
        }
        return {path: healed for path, healed in found.items() if any(healed.values())}

    def forgotten_upto(self, origin: str) -> Mark:
        return max((upto for _, upto in self._forgotten_ranges(origin)), default=(0, 0))

    def _forgotten_ranges(self, origin: str) -> Iterable[Interval]:
        return self.manifest.forgets.get(origin, ())


class StateBuilder:
    """Incremental merge: each manifest is merged once."""

    def __init__(self) -> None:
        self._merged: dict[str, tuple[tuple[Page, ...], Manifest]] = {}
        self._journals: Mapping[str, WriterPages] = {}
        self._state = ArchiveState(Manifest(), {})

    def build_state(self, journals: Mapping[str, WriterPages]) -> ArchiveState:
        """Return the same object as before if nothing changed."""
        if journals == self._journals:
            return self._state
        manifest = Manifest()
        for writer in sorted(journals):
            manifest.merge(self._merge_writer(writer, journals[writer].pages))
        unreadable: dict[str, str] = {}
        newest = {writer: pages.newest for writer, pages in journals.items()}
        for writer, pages in journals.items():
            repeated, _ = manifest.absorbed.get(writer, (0, 0))
            # Absorbed pages may be partly deleted.
            if pages.newest > repeated:
                unreadable |= pages.problems
        for carer, number in manifest.pages.items():
            if number > newest.get(carer, 0):
                unreadable[page_path(MANIFESTS, carer, number)] = MISSING
        self._merged = {writer: self._merged[writer] for writer in journals}
        self._journals = journals
        self._state = ArchiveState(manifest, unreadable, newest)
        return self._state

    def manifest_of(self, name: str) -> Manifest:
        """Return one writer's manifests, as of the last state."""
        return self._merged[name][1] if name in self._merged else Manifest()

    def _merge_writer(self, writer: str, pages: tuple[Page, ...]) -> Manifest:
        known, manifest = self._merged.get(writer, ((), Manifest()))
        if pages[: len(known)] != known:
            known, manifest = (), Manifest()
        for page in pages[len(known) :]:
            manifest.merge(page.body)
        self._merged[writer] = (pages, manifest)
        return manifest
