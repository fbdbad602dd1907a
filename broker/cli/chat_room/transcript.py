"""The lines of one room in the order of their stamps, whatever the order of their arrival.

Missing messages have a place too: behind the last known message of their site before them, else
before the first one after them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import attrs

from broker.cli.chat_room.message import ChatMessage
from broker.client.received import ReceivedEvent
from broker.event.event_id import EventId
from broker.event.order_entry import OrderEntry
from broker.event.site_notice import MissingMessages, MovedMessages

#: The oldest lines go.
MOST_LINES: Final = 1_000
#: The oldest ones go.
MOST_MISSING: Final = 200

_Key: TypeAlias = tuple[int, str, int, int, str, int, int]


@attrs.frozen
class ChatLine:
    """A message with its place."""

    message: ChatMessage
    event_id: EventId
    order: OrderEntry | None
    """None for a stream without an order of sites: then the time stamp of its EventId counts."""
    key: _Key = attrs.field(repr=False)

    @property
    def site(self) -> str:
        return "" if self.order is None else self.order.site

    @property
    def is_late(self) -> bool:
        return self.order is not None and self.order.is_late


Line: TypeAlias = ChatLine | MissingMessages


@attrs.frozen
class Insertion:
    """A new line, and its neighbours in the transcript."""

    line: ChatLine
    before: ChatLine | None
    after: ChatLine | None


class Transcript:
    def __init__(self, most_lines: int = MOST_LINES, most_missing: int = MOST_MISSING) -> None:
        self._most_lines = most_lines
        self._most_missing = most_missing
        self._lines: list[ChatLine] = []
        """Sorted by key."""
        self._known: dict[EventId, ChatLine] = {}
        self._missing: list[MissingMessages] = []
        self.repeated = 0
        """Lines that came again."""
        self.dropped = 0
        """Lines beyond the bound."""

    def add_message(self, event: ReceivedEvent, message: ChatMessage) -> Insertion | None:
        """Return the line with its neighbours; None if it has come before."""
        if event.event_id in self._known:
            self.repeated += 1
            return None
        key = self._key_of(event.event_id, event.order)
        line = ChatLine(message, event.event_id, event.order, key)
        insertion = self._insert(line)
        if line.order is not None:
            self._missing = list(_without(self._missing, [line.order]))
        self._drop_oldest()
        return insertion

    def move_messages(self, notice: MovedMessages) -> list[Insertion]:
        """Give lines their new places, and return them as late ones."""
        moves = {(each.site, each.incarnation, each.number): each for each in notice.moves}
        found = [
            (line, line.order, move)
            for line in self._lines
            if line.order is not None and line.order.stack == notice.stack
            if (move := moves.get(line.order.id)) is not None
        ]
        insertions = []
        for line, order, move in found:
            del self._lines[bisect_left(self._lines, line.key, key=_key)]
            moved = attrs.evolve(order, stamp=move.stamp, tie=move.tie, is_late=True)
            key = self._key_of(line.event_id, moved)
            insertions.append(self._insert(attrs.evolve(line, order=moved, key=key)))
        return insertions

    def _insert(self, line: ChatLine) -> Insertion:
        index = bisect_left(self._lines, line.key, key=_key)
        before = self._lines[index - 1] if index else None
        after = self._lines[index] if index < len(self._lines) else None
        self._lines.insert(index, line)
        self._known[line.event_id] = line
        return Insertion(line, before, after)

    def add_missing(self, notice: MissingMessages) -> list[MissingMessages]:
        """Add messages that do not come, and return them. Those that are here do not count."""
        entries = [line.order for line in self._lines if line.order is not None]
        new = [part for part in _without([notice], entries) if part not in self._missing]
        for part in new:
            insort(self._missing, part, key=_order_missing)
        del self._missing[: -self._most_missing]
        return new

    def __contains__(self, event_id: EventId) -> bool:
        return event_id in self._known

    def find(self, event_id: EventId) -> ChatLine | None:
        return self._known.get(event_id)

    @property
    def messages(self) -> list[ChatLine]:
        return list(self._lines)

    @property
    def missing(self) -> list[MissingMessages]:
        return list(self._missing)

    @property
    def lines(self) -> list[Line]:
        """All lines, with missing ones at their places."""
        behind: dict[int, list[MissingMessages]] = {}
        for each in self._missing:
            behind.setdefault(self._place_of(each), []).append(each)
        found: list[Line] = [*behind.get(-1, ())]
        for index, line in enumerate(self._lines):
            found += [line, *behind.get(index, ())]
        return found

    def neighbours_of(self, missing: MissingMessages) -> tuple[ChatLine | None, ChatLine | None]:
        """Return the lines before and after missing messages."""
        index = self._place_of(missing)
        before = self._lines[index] if index >= 0 else None
        return before, self._lines[index + 1] if index + 1 < len(self._lines) else None

    def _place_of(self, missing: MissingMessages) -> int:
        """Return the index of the line before missing messages, or -1."""
        last, first = None, None
        for index, line in enumerate(self._lines):
            if line.order is None or (line.order.stack, line.site) != (missing.stack, missing.site):
                continue
            number = line.order.incarnation, line.order.number
            if number < (missing.incarnation, missing.first):
                last = index
            elif first is None:
                first = index
        if last is not None:
            return last
        return len(self._lines) - 1 if first is None else first - 1

    def _key_of(self, id: EventId, order: OrderEntry | None) -> _Key:
        tail = id.client_id, id.incarnation, id.sequence_number
        if order is None:
            return (id.timestamp, "", 0, 0, *tail)
        if order.stamp is None:
            # A sequencer gives its number later: until then it is the newest.
            newest = self._lines[-1].key[0] if self._lines else 0
            return (newest, "\U0010ffff", order.incarnation, order.number, *tail)
        return (order.stamp, order.tie or order.site, order.incarnation, order.number, *tail)

    def _drop_oldest(self) -> None:
        while len(self._lines) > self._most_lines:
            del self._known[self._lines.pop(0).event_id]
            self.dropped += 1


def _key(line: ChatLine) -> _Key:
    return line.key


def _order_missing(missing: MissingMessages) -> tuple[str, str, int, int]:
    return missing.stack, missing.site, missing.incarnation, missing.first


def _without(
    missing: Iterable[MissingMessages], entries: Iterable[OrderEntry]
) -> Iterator[MissingMessages]:
    """Yield the parts of missing messages that none of the entries has."""
    have: dict[tuple[str, str, int], list[int]] = {}
    for entry in entries:
        have.setdefault((entry.stack, entry.site, entry.incarnation), []).append(entry.number)
    for each in missing:
        first = each.first
        for number in sorted(have.get((each.stack, each.site, each.incarnation), ())):
            if first <= number <= each.last:
                if first < number:
                    yield attrs.evolve(each, first=first, last=number - 1)
                first = number + 1
        if first <= each.last:
            yield attrs.evolve(each, first=first)
