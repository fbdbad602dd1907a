"""Flight documents as a flow of one origin, with consecutive ANs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.harness.flights import FLIGHT, PAYLOAD_BYTES, flight_payload
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.place import Mark
from broker.event.writer import write_event
from broker.log.logged_event import encode_header
from broker.streams.contract import CarriedEvent, FlowBatch

PATTERN: Final = "asdi.>"
FLOW: Final = "origin/asdi.>"
_STREAM: Final = "asdi.zbw"
_EPOCH: Final = 1
#: Documents repeat after so many.
DISTINCT: Final = 1_000
_MILLISECONDS: Final = 1_700_000_000_000


class DocumentFlow:
    """Makes batches of one flow."""

    def __init__(self, documents: Sequence[bytes]) -> None:
        """They repeat."""
        self.end = 0
        """AN of the last event."""
        self._contents = [(_record(n), document) for n, document in enumerate(documents)]

    def next_batch(self, count: int) -> FlowBatch:
        """Return the next `count` events."""
        first, self.end = self.end, self.end + count
        events = [
            CarriedEvent((_EPOCH, an), *self._contents[an % len(self._contents)])
            for an in range(first + 1, self.end + 1)
        ]
        after: Mark = (_EPOCH, first) if first else (0, 0)
        return FlowBatch(FLOW, "/origin", after, (_EPOCH, self.end), events)


def payloads(size: int = PAYLOAD_BYTES) -> list[bytes]:
    """Return flights of `size` bytes, at least those of a record; spaces fill it."""
    return [flight_payload(number).ljust(size) for number in range(DISTINCT)]


def events() -> list[bytes]:
    """Return flights in their envelopes, as nodes carry them."""
    return [
        write_event(_event_id(number), _STREAM, FLIGHT, flight_payload(number))
        for number in range(DISTINCT)
    ]


def _event_id(number: int) -> EventId:
    return EventId("feed", _MILLISECONDS + number, number + 1, 1)


def _record(number: int) -> bytes:
    levels = SecurityLevel.LOW, Liveness.LIVE
    return encode_header(Header(_event_id(number), _STREAM, FLIGHT.name, FLIGHT.version, *levels))
