"""Known places of messages, and the numbers of each epoch that a site knows.

Sequencers that are cut off from each other may number one message. Its lowest known number is its
place. Two sites know one place for each message when both have told what the other one's numbers do
not cover: each place is a number that the other site knows or is told, and its own is not above it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

from broker.transport.order.packet import MessageId, Stamp
from broker.transport.order.sequencer.packet import (
    NUMBER_BITS,
    Delivered,
    Epoch,
    Header,
    KnownNumbers,
    Places,
)

#: Of a table of known numbers. Lower ones than those of a full table count as known.
MOST_EPOCHS = 256


class PlaceTable:
    """`most` bounds the places: the oldest are dropped first."""

    def __init__(self, most: int) -> None:
        self.known: dict[Epoch, int] = {}
        self._most = most
        self._places: OrderedDict[MessageId, tuple[Stamp, Header]] = OrderedDict()
        # Messages whose places are told always: their numbers are those of others, or are higher.
        self._uncovered: set[MessageId] = set()

    def place_of(self, id: MessageId) -> Stamp | None:
        known = self._places.get(id)
        return None if known is None else known[0]

    def add_place(self, header: Header, stamp: Stamp) -> None:
        """Record a place, unless a lower one is known."""
        id = header.id
        known = self._places.get(id)
        if known is None or stamp < known[0]:
            self._places[id] = stamp, header
            if len(self._places) > self._most:
                dropped, _ = self._places.popitem(last=False)
                self._uncovered.discard(dropped)

    def add_number(self, stamp: Stamp) -> None:
        """Record that the places of this number and of all before it in its epoch are known."""
        epoch = epoch_of(stamp)
        self.known[epoch] = number_of(stamp) + 1
        if len(self.known) > MOST_EPOCHS:
            del self.known[min(self.known)]

    def add_next_number(self, stamp: Stamp) -> None:
        """Record that the place of this number is known. It counts behind the one before it."""
        if number_of(stamp) == self.known.get(epoch_of(stamp), 0):
            self.add_number(stamp)

    def add_known(self, known: KnownNumbers) -> None:
        """Record that all places are known that another site has told, and knows."""
        self.known = merge_known((self.known, known))

    def mark_uncovered(self, id: MessageId) -> None:
        self._uncovered.add(id)

    def forget_uncovered(self) -> None:
        """Drop marks of messages without a place."""
        self._uncovered.intersection_update(self._places)

    def select(self, delivered: Delivered, known: KnownNumbers) -> Iterator[tuple[Stamp, Header]]:
        """Yield the places that a site with these deliveries and known numbers may need."""
        is_covered = coverage_of(known)
        for id, place in self._places.items():
            is_delivered = id.number <= delivered.get(id[:2], 0)
            if not is_delivered or id in self._uncovered or not is_covered(place[0]):
                yield place

    def is_uncovered(self, id: MessageId) -> bool:
        return id in self._uncovered


def epoch_of(stamp: Stamp) -> Epoch:
    return Epoch(stamp.time >> NUMBER_BITS, stamp.site)


def number_of(stamp: Stamp) -> int:
    return stamp.time & (1 << NUMBER_BITS) - 1


def coverage_of(known: KnownNumbers) -> Callable[[Stamp], bool]:
    """Return a function that returns True for numbers that a site knows."""
    lowest = min(known) if len(known) >= MOST_EPOCHS else Epoch(0, "")

    def is_covered(stamp: Stamp) -> bool:
        epoch = epoch_of(stamp)
        return epoch < lowest or number_of(stamp) < known.get(epoch, 0)

    return is_covered


def merge_known(tables: Iterable[KnownNumbers]) -> dict[Epoch, int]:
    """Return the highest numbers of all, of the highest epochs."""
    merged: dict[Epoch, int] = {}
    for known in tables:
        for epoch, number in known.items():
            merged[epoch] = max(number, merged.get(epoch, 0))
    return {epoch: merged[epoch] for epoch in sorted(merged)[-MOST_EPOCHS:]}


def merge_places(
    tables: Iterable[Iterable[tuple[Stamp, Header]]],
) -> dict[MessageId, tuple[Stamp, Header]]:
    """Return the lowest place of each message."""
    merged: dict[MessageId, tuple[Stamp, Header]] = {}
    for places in tables:
        for place in places:
            id = place[1].id
            if id not in merged or place[0] < merged[id][0]:
                merged[id] = place
    return merged


def sort_places(places: Iterable[tuple[Stamp, Header]]) -> Places:
    """Return places in the order of their stamps."""
    return tuple(sorted(places, key=lambda place: (place[0], place[1].id.number)))
