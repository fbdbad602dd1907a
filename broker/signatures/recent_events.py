"""Recent signed events, to find an origin that signs two events for one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from broker.event.place import Mark
from broker.signatures.leaf import EventFields

#: Of all origins, at least. Beyond twice as many the older half is dropped: dropping one for each
#: new event would take twice the time.
MOST_RECENT = 8_192
#: By origin and place.
_Hashes: TypeAlias = dict[str, dict[Mark, int]]


class RecentEvents:
    """The places of recent events, with a hash of header and document."""

    def __init__(self) -> None:
        self._newer: _Hashes = {}
        self._older: _Hashes = {}
        self._newer_count = 0

    def __len__(self) -> int:
        return self._newer_count + sum(map(len, self._older.values()))

    def find_second(self, origin: str, signed: Sequence[EventFields]) -> list[Mark]:
        """Record events whose proofs are valid. Return the places at which another event was seen.

        A placeholder counts as its event: it has the hash of its document.
        """
        found: list[Mark] = []
        for start in range(0, len(signed), MOST_RECENT):
            found += self._find_second(origin, signed[start : start + MOST_RECENT])
        return found

    def _find_second(self, origin: str, signed: Sequence[EventFields]) -> list[Mark]:
        # The first event at a place counts.
        hashes = {event[0]: hash(event[1:]) for event in reversed(signed)}
        found: list[Mark] = []
        if len(hashes) < len(signed):
            found = [event[0] for event in signed if hash(event[1:]) != hashes[event[0]]]
        for known in (self._newer.get(origin), self._older.get(origin)):
            if known is None:
                continue
            for mark in known.keys() & hashes.keys():
                if known[mark] != hashes.pop(mark):
                    found.append(mark)
        if self._newer_count + len(hashes) > MOST_RECENT:
            self._newer, self._older, self._newer_count = {}, self._newer, 0
        self._newer.setdefault(origin, {}).update(hashes)
        self._newer_count += len(hashes)
        return sorted(found)
