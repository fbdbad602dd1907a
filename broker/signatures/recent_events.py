"""Recent signed events, to find an origin that signs two events for one place."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from broker.event.place import Mark
from broker.signatures.leaf import PlacedEvent

#: Of all origins; further ones replace the oldest.
MOST_RECENT = 16_384


class RecentEvents:
    """The places of recent events, with a hash of header and document."""

    def __init__(self) -> None:
        self._hashes: OrderedDict[tuple[str, Mark], int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._hashes)

    def find_second(self, origin: str, signed: Iterable[PlacedEvent]) -> list[Mark]:
        """Record events whose proofs are valid. Return the places at which another event was seen.

        A placeholder counts as its event: it has the hash of its document.
        """
        hashes, found = self._hashes, []
        for event in signed:
            hashed = hash(event[1:])
            if hashes.setdefault((origin, event.mark), hashed) != hashed:
                found.append(event.mark)
        while len(hashes) > MOST_RECENT:
            hashes.popitem(last=False)
        return found
