"""Messages of the sequencer variant from arrival to delivery."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from broker.transport.order.packet import Message, MessageId, Stamp
from broker.transport.order.sequencer.packet import Delivered, Places

#: Older incarnations of a site are dropped.
_INCARNATIONS = 4


class Delivery:
    """Messages that wait, entries of the order that wait for their message, and known stamps.

    `most` bounds the known stamps: the oldest are dropped first.
    """

    def __init__(self, most: int) -> None:
        #: Highest delivered number by site and incarnation.
        self.delivered: dict[tuple[str, int], int] = {}
        #: Numbered messages that are not delivered, in order, with the times of their numbers.
        self.entries: deque[tuple[Stamp, MessageId, float]] = deque()
        #: Messages without a number, with the time of their arrival or last request.
        self.unnumbered: dict[MessageId, float] = {}
        self._most = most
        # Messages that are not delivered, by site and incarnation, then by number.
        self._messages: dict[tuple[str, int], dict[int, Message]] = {}
        self._places: dict[MessageId, Stamp] = {}
        self._numbered: set[MessageId] = set()

    def add_message(self, message: Message, now: float) -> None:
        id = message.id
        self._messages.setdefault(id[:2], {})[id.number] = message
        if id not in self._numbered:
            self.unnumbered[id] = now

    def is_delivered(self, id: MessageId) -> bool:
        return id.number <= self.delivered.get(id[:2], 0)

    def is_waiting(self, id: MessageId) -> bool:
        """Return True if the message has arrived and is not delivered."""
        return id.number in self._messages.get(id[:2], ())

    def is_numbered(self, id: MessageId) -> bool:
        """Return True if the message has an entry."""
        return id in self._numbered

    def is_without_place(self, id: MessageId) -> bool:
        return id not in self._numbered and id not in self._places

    def place_of(self, id: MessageId) -> Stamp | None:
        return self._places.get(id)

    def add_entry(self, stamp: Stamp, id: MessageId, now: float) -> None:
        if not self.is_delivered(id) and id not in self._numbered:
            self.entries.append((stamp, id, now))
            self._numbered.add(id)
            self.unnumbered.pop(id, None)

    def pop_entry(self) -> None:
        id = self.entries.popleft()[1]
        self._numbered.discard(id)

    def drop_entries(self, now: float) -> None:
        """Drop numbers that other sites may not have."""
        self.entries.clear()
        self._numbered.clear()
        for messages in self._messages.values():
            for message in messages.values():
                self.unnumbered.setdefault(message.id, now)

    def remember(self, id: MessageId, stamp: Stamp) -> None:
        self._places[id] = stamp
        if len(self._places) > self._most:
            del self._places[next(iter(self._places))]

    def take(self, id: MessageId, stamp: Stamp) -> Iterator[tuple[Message, Stamp]]:
        """Yield a message, and before it earlier ones of its sender (R15).

        Without a known place they get the stamp of the message itself.
        """
        messages = self._messages[id[:2]]
        for number in [each for each in messages if each <= id.number]:
            message = messages.pop(number)
            place = stamp if number == id.number else self._places.get(message.id, stamp)
            self._count_delivered(message.id)
            self.unnumbered.pop(message.id, None)
            self.remember(message.id, place)
            yield message, place
        if not messages:
            del self._messages[id[:2]]

    def _count_delivered(self, id: MessageId) -> None:
        if id[:2] not in self.delivered:
            known = sorted(key for key in self.delivered if key[0] == id.site)
            for key in known[: max(0, len(known) + 1 - _INCARNATIONS)]:
                del self.delivered[key]
        self.delivered[id[:2]] = id.number

    def places_beyond(self, delivered: Delivered) -> dict[MessageId, Stamp]:
        """Return known stamps of messages that a site has not delivered."""
        return {
            id: stamp for id, stamp in self._places.items() if id.number > delivered.get(id[:2], 0)
        }


def sort_places(places: Mapping[MessageId, Stamp]) -> Places:
    """Return places in the order of their stamps."""
    pairs = ((stamp, id) for id, stamp in places.items())
    return tuple(sorted(pairs, key=lambda pair: (pair[0], pair[1].number)))


def sort_ids(ids: Iterable[MessageId]) -> tuple[MessageId, ...]:
    """Return each id once, those of one sender in order."""
    return tuple(sorted(set(ids)))
