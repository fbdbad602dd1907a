"""Recent signed events, to find an origin that signs two events for one place."""

from __future__ import annotations

from collections.abc import Iterable

from broker.event.flow import origin_of
from broker.event.origin import is_signed_origin
from broker.event.place import Mark
from broker.event.placeholder import placeholder_code
from broker.event.record import split_record
from broker.signatures.event_check import ReceivedEvent

#: Of all origins; further ones replace the oldest.
MOST_RECENT = 16_384


class RecentEvents:
    """The places of recent events, with a hash of header and document."""

    def __init__(self) -> None:
        self._hashes: dict[tuple[str, Mark], int] = {}

    def __len__(self) -> int:
        return len(self._hashes)

    def find_second(self, flow: str, events: Iterable[ReceivedEvent]) -> list[Mark]:
        """Record events whose proofs are valid. Return the places at which another event was seen.

        A placeholder counts for no event: each node may have made it.
        """
        origin = origin_of(flow)
        if not is_signed_origin(origin):
            return []
        hashes, found = self._hashes, []
        for event in events:
            document = event.document
            if placeholder_code(document) is not None:
                continue
            plain, _, _ = split_record(event.record)
            hashed = hash((plain, document))
            if hashes.setdefault((origin, event.mark), hashed) != hashed:
                found.append(event.mark)
        while len(hashes) > MOST_RECENT:
            del hashes[next(iter(hashes))]
        return found
