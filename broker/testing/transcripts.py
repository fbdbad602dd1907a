"""Checker of the order entries in the logs of a group's sites (X13)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import attrs

from broker.event.order_entry import MessageId, OrderEntry
from broker.transport import order
from broker.transport.order.delivery_check import DeliveryCheck


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
    late: int = 0
    _deliveries: DeliveryCheck = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._deliveries = DeliveryCheck(has_lost_commits=self.lost_commits or bool(self.moved))

    def check(self, entries: Sequence[OrderEntry]) -> Iterator[str]:
        for entry in entries:
            yield from self._check_entry(entry)

    def _check_entry(self, entry: OrderEntry) -> Iterator[str]:
        key = key_of(entry)
        if entry.id in self.keys:
            yield f"{entry.id} came twice"
        stamp = None if key is None else order.Stamp(key.stamp, key.tie)
        highest = self._deliveries.highest
        wrong = self._deliveries.check(order.MessageId(*entry.id), stamp, is_late=entry.is_late)
        if entry.id in self.moved:
            self._deliveries.highest = highest
        if wrong is not None:
            yield wrong
        if key is not None:
            yield from self._check_neighbours(entry, key)
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
