"""Messages of the sequencer variant from arrival to delivery."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from broker.transport.order.packet import Message, MessageId, Stamp
from broker.transport.order.sequencer.packet import Header, KnownNumbers
from broker.transport.order.sequencer.place_table import PlaceTable

#: Older incarnations of a site are dropped.
_INCARNATIONS = 4


class Entry(NamedTuple):
    """A numbered message that is not delivered."""

    stamp: Stamp
    header: Header
    since: float
    #: Numbers that are known behind it. None: up to its own one.
    known: KnownNumbers | None = None


class Delivery:
    """Messages that wait, entries of the order that wait for their message, and known places.

    `most` bounds the places.
    """

    def __init__(self, most: int) -> None:
        #: Highest delivered number by site and incarnation.
        self.delivered: dict[tuple[str, int], int] = {}
        #: In order.
        self.entries: deque[Entry] = deque()
        #: Messages without a number, with the times of their arrivals.
        self.unnumbered: dict[MessageId, tuple[Header, float]] = {}
        # Messages that were delivered without a place, with the times.
        self._unplaced: OrderedDict[MessageId, float] = OrderedDict()
        self.places = PlaceTable(most)
        self._most = most
        # Messages that are not delivered with their arrivals, by site and incarnation, then number.
        self._messages: dict[tuple[str, int], OrderedDict[int, tuple[Message, float]]] = {}
        self._numbered: dict[MessageId, Stamp] = {}
        # Of dropped entries: their times, so that they do not wait anew.
        self._since: dict[MessageId, float] = {}

    def add_message(self, message: Message, now: float) -> None:
        id = message.id
        self._messages.setdefault(id[:2], OrderedDict())[id.number] = message, now
        if id not in self._numbered:
            self.unnumbered[id] = header_of(message), now

    def is_delivered(self, id: MessageId) -> bool:
        return id.number <= self.delivered.get(id[:2], 0)

    def is_waiting(self, id: MessageId) -> bool:
        """Return True if the message has arrived and is not delivered."""
        return id.number in self._messages.get(id[:2], ())

    @property
    def is_waiting_for_order(self) -> bool:
        """True if a message or a number waits."""
        return bool(self._messages or self.entries)

    def unnumbered_headers(self) -> list[Header]:
        return [header for header, _ in self.unnumbered.values()]

    def add_unplaced(self, id: MessageId, now: float) -> None:
        """Record that a message was delivered without a place."""
        self._unplaced[id] = now
        if len(self._unplaced) > self._most:
            dropped, _ = self._unplaced.popitem(last=False)
            self.unnumbered.pop(dropped, None)
        if id not in self._numbered:
            self.unnumbered[id] = Header(id, frozenset()), now

    def is_unplaced(self, id: MessageId) -> bool:
        return id in self._unplaced

    def take_unplaced(self, id: MessageId) -> bool:
        """Return whether a message was without a place. It has one from now on."""
        self.unnumbered.pop(id, None)
        return self._unplaced.pop(id, None) is not None

    def waiting_since(self) -> float | None:
        """Return the arrival of the oldest message that is not delivered."""
        firsts = (next(iter(each.values())) for each in self._messages.values())
        return min((arrival for _, arrival in firsts), default=None)

    def is_numbered(self, id: MessageId) -> bool:
        """Return True if the message has an entry."""
        return id in self._numbered

    def is_without_place(self, id: MessageId) -> bool:
        return id not in self._numbered and self.places.place_of(id) is None

    def add_entry(
        self, stamp: Stamp, header: Header, now: float, known: KnownNumbers | None = None
    ) -> None:
        id = header.id
        if self.is_delivered(id) and not self.is_unplaced(id):
            # It is missing here, and later ones were delivered.
            self.places.add_place(header, stamp)
        elif id not in self._numbered:
            self.entries.append(Entry(stamp, header, self._since.get(id, now), known))
            self._numbered[id] = stamp
            self.unnumbered.pop(id, None)

    def add_known(self, known: KnownNumbers) -> None:
        """Record that another site has told all these numbers, the last entries among them."""
        if self.entries:
            self.entries[-1] = self.entries[-1]._replace(known=known)
        else:
            self.places.add_known(known)

    def pop_entry(self) -> None:
        stamp, header, _, known = self.entries.popleft()
        self._numbered.pop(header.id, None)
        if known is None:
            self.places.add_number(stamp)
        else:
            self.places.add_known(known)

    def drop_entries(self, now: float) -> None:
        """Drop numbers that other sites may not have."""
        self._since = {entry.header.id: entry.since for entry in self.entries}
        self.entries.clear()
        self._numbered.clear()
        self.places.forget_uncovered()
        for messages in self._messages.values():
            for message, _ in messages.values():
                self.unnumbered.setdefault(message.id, (header_of(message), now))
        for id in self._unplaced:
            self.unnumbered.setdefault(id, (Header(id, frozenset()), now))

    def restore(self, id: MessageId, stamp: Stamp) -> None:
        """Record the place of a message that the order does not deliver."""
        self.places.add_place(Header(id, frozenset()), stamp)
        self.places.add_next_number(stamp)
        if id[:2] not in self._messages:
            self.count_delivered(id)

    def take_messages(self, id: MessageId, stamp: Stamp) -> Iterator[tuple[Message, Stamp, bool]]:
        """Yield a message, and before it earlier ones of its sender (R15).

        Without a lower place they get the stamp of the message itself. The last value is True if it
        is below a known number.
        """
        messages = self._messages[id[:2]]
        while messages and (number := next(iter(messages))) <= id.number:
            message, _ = messages.pop(number)
            known = self._number_of(message.id) or stamp
            place = min(stamp, known)
            self.count_delivered(message.id)
            self.unnumbered.pop(message.id, None)
            self.places.add_place(header_of(message), place)
            if place == stamp and number != id.number:
                self.places.mark_uncovered(message.id)
            yield message, place, place < known
        if not messages:
            del self._messages[id[:2]]

    def _number_of(self, id: MessageId) -> Stamp | None:
        place = self.places.place_of(id)
        return self._numbered.get(id) if place is None else place

    def count_delivered(self, id: MessageId) -> None:
        if id[:2] not in self.delivered:
            known = sorted(key for key in self.delivered if key[0] == id.site)
            for key in known[: max(0, len(known) + 1 - _INCARNATIONS)]:
                del self.delivered[key]
        self.delivered[id[:2]] = max(id.number, self.delivered.get(id[:2], 0))


def header_of(message: Message) -> Header:
    return Header(message.id, message.connected)


def sort_headers(headers: Iterable[Header]) -> tuple[Header, ...]:
    """Return each header once, those of one sender in order."""
    return tuple(sorted(set(headers), key=lambda header: header.id))
