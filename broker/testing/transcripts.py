"""Checker of the order entries in the logs of a group's sites (X13)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import attrs

from broker.event.order_entry import MessageId, OrderEntry


class Key(NamedTuple):
    """Place of an event in the order."""

    stamp: int
    tie: str
    number: int


def key_of(entry: OrderEntry) -> Key | None:
    return None if entry.stamp is None else Key(entry.stamp, entry.tie or entry.site, entry.number)


@attrs.define
class SiteChecker:
    """Checks the entries of one site, in the order of its log.

    After a failed commit events may count as late behind events that were not logged yet
    (`lost_commits`). `moved` have other places now than in the log, and nothing is compared with
    them.
    """

    lost_commits: bool = False
    moved: Collection[MessageId] = ()
    keys: dict[MessageId, Key | None] = attrs.field(factory=dict)
    highest: Key | None = None
    late: int = 0
    _last: dict[str, tuple[int, int]] = attrs.field(factory=dict)

    def check(self, entries: Sequence[OrderEntry]) -> Iterator[str]:
        for entry in entries:
            yield from self._check_entry(entry)

    def _check_entry(self, entry: OrderEntry) -> Iterator[str]:
        key, name = key_of(entry), f"{entry.id} at {entry.stamp}"
        if entry.id in self.keys:
            yield f"{name} came twice"
        place = entry.incarnation, entry.number
        if self._last.get(entry.site, (0, 0)) >= place:
            yield f"{name} came behind {self._last[entry.site]} of its site"
        self._last[entry.site] = place
        if key is not None:
            is_late = self.highest is not None and key < self.highest
            if entry.is_late and not is_late and not (self.lost_commits or self.moved):
                yield f"{name} is not late"
            if is_late and not entry.is_late:
                yield f"{name} is late behind {self.highest}"
            yield from self._check_neighbours(entry, key)
            if entry.id not in self.moved:
                self.highest = key if self.highest is None else max(key, self.highest)
        self.keys[entry.id] = key
        self.late += entry.is_late

    def _check_neighbours(self, entry: OrderEntry, key: Key) -> Iterator[str]:
        """A neighbour is known if this site has delivered it, in this process or shortly before."""
        for neighbour, is_before in ((entry.before, True), (entry.after, False)):
            found = None if neighbour is None else self.keys.get(neighbour)
            is_moved = neighbour in self.moved or entry.id in self.moved
            if found is not None and not is_moved and (found < key) is not is_before:
                yield f"{entry.id} is not {'behind' if is_before else 'before'} {neighbour}"
        if entry.is_late and entry.after is None:
            yield f"{entry.id} is late and names no event behind it"


def compare_sites(sites: Mapping[str, SiteChecker]) -> Iterator[str]:
    """Yield differences between the transcripts of sites, sorted by stamp."""
    (first, expected), *others = ((name, site.keys) for name, site in sites.items())
    for name, found in others:
        if found.keys() != expected.keys():
            yield f"{name} and {first}: only one has {sorted(found.keys() ^ expected.keys())[:5]}"
        for id in found.keys() & expected.keys():
            if found[id] != expected[id]:
                yield f"{id}: {found[id]} at {name}, {expected[id]} at {first}"
