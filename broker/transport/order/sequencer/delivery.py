"""Messages of the sequencer variant from arrival to delivery."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from broker.transport.order.packet import Message, MessageId, Stamp
from broker.transport.order.sequencer.packet import Delivered, Header, Places

#: Older incarnations of a site are dropped.
_INCARNATIONS = 4


class Entry(NamedTuple):
    """A numbered message that is not delivered."""

    stamp: Stamp
    header: Header
    since: float


class Delivery:
    """Messages that wait, entries of the order that wait for their message, and known stamps.

    `most` bounds the known stamps: the oldest are dropped first.
    """

    def __init__(self, most: int) -> None:
        #: Highest delivered number by site and incarnation.
        self.delivered: dict[tuple[str, int], int] = {}
        #: In order.
        self.entries: deque[Entry] = deque()
        #: Messages without a number, with the times of their arrivals.
        self.unnumbered: dict[Header, float] = {}
        self._most = most
        # Messages that are not delivered with their arrivals, by site and incarnation, then number.
        self._messages: dict[tuple[str, int], OrderedDict[int, tuple[Message, float]]] = {}
        self._places: OrderedDict[MessageId, tuple[Stamp, Header]] = OrderedDict()
        self._numbered: set[MessageId] = set()
        # Of dropped entries: their times, so that they do not wait anew.
        self._since: dict[MessageId, float] = {}

    def add_message(self, message: Message, now: float) -> None:
        id = message.id
        self._messages.setdefault(id[:2], OrderedDict())[id.number] = message, now
        if id not in self._numbered:
            self.unnumbered[header_of(message)] = now

    def is_delivered(self, id: MessageId) -> bool:
        return id.number <= self.delivered.get(id[:2], 0)

    def is_waiting(self, id: MessageId) -> bool:
        """Return True if the message has arrived and is not delivered."""
        return id.number in self._messages.get(id[:2], ())

    def waiting_since(self) -> float | None:
        """Return the arrival of the oldest message that is not delivered."""
        firsts = (next(iter(each.values())) for each in self._messages.values())
        return min((arrival for _, arrival in firsts), default=None)

    def is_numbered(self, id: MessageId) -> bool:
        """Return True if the message has an entry."""
        return id in self._numbered

    def is_without_place(self, id: MessageId) -> bool:
        return id not in self._numbered and id not in self._places

    def place_of(self, id: MessageId) -> Stamp | None:
        known = self._places.get(id)
        return None if known is None else known[0]

    def add_entry(self, stamp: Stamp, header: Header, now: float) -> None:
        id = header.id
        if not self.is_delivered(id) and id not in self._numbered:
            self.entries.append(Entry(stamp, header, self._since.get(id, now)))
            self._numbered.add(id)
            self.unnumbered.pop(header, None)

    def pop_entry(self) -> None:
        self._numbered.discard(self.entries.popleft().header.id)

    def drop_entries(self, now: float) -> None:
        """Drop numbers that other sites may not have."""
        self._since = {entry.header.id: entry.since for entry in self.entries}
        self.entries.clear()
        self._numbered.clear()
        for messages in self._messages.values():
            for message, _ in messages.values():
                self.unnumbered.setdefault(header_of(message), now)

    def add_place(self, header: Header, stamp: Stamp) -> None:
        self._places[header.id] = stamp, header
        if len(self._places) > self._most:
            self._places.popitem(last=False)

    def take_messages(self, id: MessageId, stamp: Stamp) -> Iterator[tuple[Message, Stamp]]:
        """Yield a message, and before it earlier ones of its sender (R15).

        Without a known place they get the stamp of the message itself.
        """
        messages = self._messages[id[:2]]
        while messages and (number := next(iter(messages))) <= id.number:
            message, _ = messages.pop(number)
            known = None if number == id.number else self.place_of(message.id)
            place = stamp if known is None else known
            header = header_of(message)
            self._count_delivered(message.id)
            self.unnumbered.pop(header, None)
            self.add_place(header, place)
            yield message, place
        if not messages:
            del self._messages[id[:2]]

    def _count_delivered(self, id: MessageId) -> None:
        if id[:2] not in self.delivered:
            known = sorted(key for key in self.delivered if key[0] == id.site)
            for key in known[: max(0, len(known) + 1 - _INCARNATIONS)]:
                del self.delivered[key]
        self.delivered[id[:2]] = id.number

    def places_beyond(self, delivered: Delivered) -> dict[Header, Stamp]:
        """Return known stamps of messages that a site has not delivered."""
        return {
            header: stamp
            for stamp, header in self._places.values()
            if header.id.number > delivered.get(header.id[:2], 0)
        }


def header_of(message: Message) -> Header:
    return Header(message.id, message.connected)


def sort_places(places: Mapping[Header, Stamp]) -> Places:
    """Return places in the order of their stamps."""
    pairs = ((stamp, header) for header, stamp in places.items())
    return tuple(sorted(pairs, key=lambda pair: (pair[0], pair[1].id.number)))


def sort_headers(headers: Iterable[Header]) -> tuple[Header, ...]:
    """Return each header once, those of one sender in order."""
    return tuple(sorted(set(headers), key=lambda header: header.id))
