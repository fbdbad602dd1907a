"""Filter of repeated events by EventId (A15).

It stores windows of 1024 sequence numbers of a publisher (ClientId and incarnation) in two
generations. A full younger generation becomes the older, whose windows are dropped unless used
meanwhile. Events of a dropped window count as new.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.client.received import ReceivedEvent

#: Of 300 bytes each: the newest 2 million events of a busy publisher, or of 2000 quiet ones.
GENERATION_WINDOWS = 2048
#: As a power of two: bits of one integer are fast to copy.
_WINDOW_BITS = 10
_WINDOW_MASK = (1 << _WINDOW_BITS) - 1


class DuplicateFilter:
    def __init__(self, generation: int = GENERATION_WINDOWS) -> None:
        self._generation = generation
        self._younger: dict[tuple[str, int, int], int] = {}
        """(client, incarnation, number of the window) -> its bits."""
        self._older: dict[tuple[str, int, int], int] = {}

    def __len__(self) -> int:
        return len(self._younger) + len(self._older)

    def drop_duplicates(self, events: Sequence[ReceivedEvent]) -> Sequence[ReceivedEvent]:
        """Return the new events, and store them."""
        if len(events) == 1:
            return self._check_each(events)
        ids = [event.header.event_id for event in events]
        count = len(ids)
        clients, _, numbers, incarnations = zip(*ids, strict=True)
        client, first, incarnation = clients[0], numbers[0], incarnations[0]
        if (
            numbers[-1] - first != count - 1
            or first >> _WINDOW_BITS != numbers[-1] >> _WINDOW_BITS
            or numbers != tuple(range(first, first + count))
            or not clients.count(client) == incarnations.count(incarnation) == count
        ):
            return self._check_each(events)
        # Consecutive events of one publisher need one lookup.
        key = client, incarnation, first >> _WINDOW_BITS
        known = self._younger.get(key)
        if known is None:
            known = self._promote_window(key)
        bits = ((1 << count) - 1) << (first & _WINDOW_MASK)
        self._younger[key] = known | bits
        if not known & bits:
            return events
        return [
            event
            for event, number in zip(events, numbers, strict=True)
            if not known >> (number & _WINDOW_MASK) & 1
        ]

    def _check_each(self, events: Sequence[ReceivedEvent]) -> Sequence[ReceivedEvent]:
        found = []
        for event in events:
            client, _, number, incarnation = event.header.event_id
            key = client, incarnation, number >> _WINDOW_BITS
            known = self._younger.get(key)
            if known is None:
                known = self._promote_window(key)
            bit = 1 << (number & _WINDOW_MASK)
            if not known & bit:
                self._younger[key] = known | bit
                found.append(event)
        return found if len(found) < len(events) else events

    def _promote_window(self, key: tuple[str, int, int]) -> int:
        known = self._older.pop(key, 0)
        if len(self._younger) >= self._generation:
            self._older = self._younger
            self._younger = {}
        self._younger[key] = known
        return known
