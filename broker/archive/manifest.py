"""Manifests: sets that only grow, so the order of reading does not matter.

A file is present when some manifest adds it and none removes it or sets it aside. A snapshot
repeats all earlier manifests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from broker.archive.interval import Interval, union
from broker.archive.journal import MALFORMED
from broker.archive.manifest_entry import ArchivedFile, DtdText, OriginDtdVariant
from broker.errors import ArchiveCorrupt, BrokerError
from broker.event.place import Mark

#: Origin, and an interval.
Range: TypeAlias = tuple[str, Mark, Mark]
Ranges: TypeAlias = dict[str, list[Interval]]

#: Ms for which absorptions are recorded; the pages are deleted long before.
_ABSORBED_MS: Final = 30 * 86_400_000


@attrs.frozen
class SetAside:
    reason: str
    at: int
    """Ms since 1970."""


@attrs.define
class Manifest:
    at: int = 0
    """Time of writing, ms since 1970; the latest of several."""
    covers: Ranges = attrs.field(factory=dict)
    """Places of which all events are archived, in files added by this manifest or earlier ones."""
    forgets: Ranges = attrs.field(factory=dict)
    """Places that retention removed. They are no longer covered."""
    adds: dict[str, ArchivedFile] = attrs.field(factory=dict)
    removes: dict[str, int] = attrs.field(factory=dict)
    """Paths of files that were replaced or are too old, and the time of removal in ms."""
    deleted: set[str] = attrs.field(factory=set)
    """Paths that are deleted."""
    aside: dict[str, SetAside] = attrs.field(factory=dict)
    """Damaged files. Places that only they hold are not covered."""
    heals: dict[str, Ranges] = attrs.field(factory=dict)
    """Places of a file set aside that were written again, by path."""
    dtds: set[DtdText] = attrs.field(factory=set)
    uses: set[OriginDtdVariant] = attrs.field(factory=set)
    """Origins whose events use another DTD text than the default."""
    absorbed: dict[str, tuple[int, int]] = attrs.field(factory=dict)
    """Temporary writers whose manifests up to a number are repeated here, and the time in ms."""
    ends: dict[str, Mark] = attrs.field(factory=dict)
    """Last place of each origin that the writer saw covered by manifests of others."""
    pages: dict[str, int] = attrs.field(factory=dict)
    """Number of the newest manifest that the writer saw, by maintenance writer."""
    given_up: set[str] = attrs.field(factory=set)
    """Paths of unreadable manifests whose files were listed again."""

    def add_covers(self, ranges: Iterable[Range]) -> None:
        _add_ranges(self.covers, ranges)

    def add_forgets(self, ranges: Iterable[Range]) -> None:
        _add_ranges(self.forgets, ranges)

    def add_heals(self, ranges: Mapping[str, Ranges]) -> None:
        for path, healed in ranges.items():
            _merge_ranges(self.heals.setdefault(path, {}), healed)

    def merge(self, other: Manifest) -> None:
        self.at = max(self.at, other.at)
        _merge_ranges(self.covers, other.covers)
        _merge_ranges(self.forgets, other.forgets)
        self.adds.update(other.adds)
        for path, at in other.removes.items():
            self.removes[path] = min(at, self.removes.get(path, at))
        self.deleted |= other.deleted
        for path, aside in other.aside.items():
            self.aside.setdefault(path, aside)
        self.add_heals(other.heals)
        self.dtds |= other.dtds
        self.uses |= other.uses
        self.absorbed.update(other.absorbed)
        for origin, end in other.ends.items():
            self.ends[origin] = max(end, self.ends.get(origin, end))
        for carer, number in other.pages.items():
            self.pages[carer] = max(number, self.pages.get(carer, 0))
        self.given_up |= other.given_up

    def without_obsolete(self, everything: Manifest, unreadable: Collection[str] = ()) -> Manifest:
        """Return a copy without obsolete entries.

        `everything` merges all manifests; `unreadable` has the paths of others. Additions of
        deleted files are obsolete, and other entries for a path that no manifest adds.
        """
        known = everything.adds
        return attrs.evolve(
            self,
            adds={p: f for p, f in self.adds.items() if p not in everything.deleted},
            removes={path: at for path, at in self.removes.items() if path in known},
            deleted={path for path in self.deleted if path in known},
            aside={path: why for path, why in self.aside.items() if path in known},
            heals={path: ranges for path, ranges in self.heals.items() if path in known},
            absorbed={
                writer: (number, at)
                for writer, (number, at) in self.absorbed.items()
                if at + _ABSORBED_MS > everything.at
            },
            given_up=self.given_up.intersection(unreadable),
        )

    def to_json(self) -> dict[str, Any]:
        content: dict[str, Any] = {
            "at": self.at,
            "covers": _ranges_to_json(self.covers),
            "forgets": _ranges_to_json(self.forgets),
            "adds": [file.to_json() for file in self.adds.values()],
            "removes": [[path, at] for path, at in self.removes.items()],
            "deleted": sorted(self.deleted),
            "aside": [[path, why.reason, why.at] for path, why in self.aside.items()],
            "heals": [[path, _ranges_to_json(ranges)] for path, ranges in self.heals.items()],
            "dtds": [text.to_json() for text in sorted(self.dtds)],
            "uses": [use.to_json() for use in sorted(self.uses)],
            "absorbed": [[writer, *content] for writer, content in self.absorbed.items()],
            "ends": [[origin, *end] for origin, end in self.ends.items()],
            "pages": [[carer, number] for carer, number in self.pages.items()],
            "given_up": sorted(self.given_up),
        }
        return {key: value for key, value in content.items() if value}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Manifest:
        """Raises `ArchiveCorrupt`."""
        try:
            manifest = cls(
                at=int(content.get("at", 0)),
                adds={
                    file.path: file for file in map(ArchivedFile.from_json, content.get("adds", ()))
                },
                removes={str(path): int(at) for path, at in content.get("removes", ())},
                deleted=set(map(str, content.get("deleted", ()))),
                aside={str(p): SetAside(str(r), int(at)) for p, r, at in content.get("aside", ())},
                dtds=set(map(DtdText.from_json, content.get("dtds", ()))),
                uses=set(map(OriginDtdVariant.from_json, content.get("uses", ()))),
                absorbed={str(w): (int(n), int(at)) for w, n, at in content.get("absorbed", ())},
                ends={str(o): (int(e), int(offset)) for o, e, offset in content.get("ends", ())},
                pages={str(carer): int(number) for carer, number in content.get("pages", ())},
                given_up=set(map(str, content.get("given_up", ()))),
            )
            manifest.add_covers(_ranges_from_json(content.get("covers", ())))
            manifest.add_forgets(_ranges_from_json(content.get("forgets", ())))
            for path, healed in content.get("heals", ()):
                _add_ranges(manifest.heals.setdefault(str(path), {}), _ranges_from_json(healed))
        except (*MALFORMED, AttributeError, BrokerError) as error:
            raise ArchiveCorrupt(f"invalid manifest: {error!r}") from None
        return manifest


def _add_ranges(ranges: Ranges, more: Iterable[Range]) -> None:
    for origin, after, upto in more:
        ranges[origin] = list(union((*ranges.get(origin, ()), (after, upto))))


def _merge_ranges(target: Ranges, added: Ranges) -> None:
    for origin, intervals in added.items():
        target[origin] = list(union((*target.get(origin, ()), *intervals)))


def _ranges_to_json(ranges: Ranges) -> list[Any]:
    return [
        [origin, list(after), list(upto)]
        for origin, intervals in ranges.items()
        for after, upto in intervals
    ]


def _ranges_from_json(content: Iterable[Any]) -> list[Range]:
    return [
        (str(origin), (int(after[0]), int(after[1])), (int(upto[0]), int(upto[1])))
        for origin, after, upto in content
    ]
