"""Which events a subscription has had, by EventId: so one that comes again is dropped (A15).

The same event has two places when its publisher was cut off and sent it again to another node;
and what a node gave out before it died comes again from the next one. Remembered are windows of
1024 sequence numbers of one publisher (ClientId and incarnation), so many; when there are more,
the window that was used longest ago goes, and what it held would be taken for new.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.client.received import ReceivedEvent

#: Windows that one subscription remembers, of some 300 bytes each: all that 4 million events of a
#: busy publisher need, or the newest events of 4000 quiet ones.
MOST_WINDOWS = 4096
#: Sequence numbers of one window, as a power of two: one integer's bits, fast to copy.
_BITS = 10
_WITHIN = (1 << _BITS) - 1


class Seen:
    """A bounded memory of EventIds."""

    def __init__(self, most_windows: int = MOST_WINDOWS) -> None:
        self._most = most_windows
        self._windows: dict[tuple[str, int, int], int] = {}
        """(client, incarnation, number of the window) -> its bits; the newest used stands last."""

    def __len__(self) -> int:
        return len(self._windows)

    def fresh(self, events: Sequence[ReceivedEvent]) -> Sequence[ReceivedEvent]:
        """Those that were not here before; from now on they were."""
        if len(events) == 1:
            return self._one_by_one(events)
        ids = [event.header.event_id for event in events]
        count = len(ids)
        clients, _, numbers, incarnations = zip(*ids, strict=True)
        client, first, incarnation = clients[0], numbers[0], incarnations[0]
        if (
            first >> _BITS == (first + count - 1) >> _BITS
            and numbers == tuple(range(first, first + count))
            and clients.count(client) == incarnations.count(incarnation) == count
        ):
            # Mostly all are of one publisher, in its order: then they are one look-up.
            key = client, incarnation, first >> _BITS
            had = self._windows.pop(key, 0)
            bits = ((1 << count) - 1) << (first & _WITHIN)
            self._keep(key, had | bits)
            if not had & bits:
                return events
            return [
                event
                for event, number in zip(events, numbers, strict=True)
                if not had >> (number & _WITHIN) & 1
            ]
        return self._one_by_one(events)

    def _one_by_one(self, events: Sequence[ReceivedEvent]) -> Sequence[ReceivedEvent]:
        windows = self._windows
        found = []
        for event in events:
            client, _, number, incarnation = event.header.event_id
            key = client, incarnation, number >> _BITS
            had = windows.pop(key, 0)
            bit = 1 << (number & _WITHIN)
            if not had & bit:
                found.append(event)
            self._keep(key, had | bit)
        return found if len(found) < len(events) else events

    def _keep(self, key: tuple[str, int, int], bits: int) -> None:
        self._windows[key] = bits
        if len(self._windows) > self._most:
            del self._windows[next(iter(self._windows))]
