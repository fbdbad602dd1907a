"""Flight events: the papers' record with the time of the report, 262 bytes, every one distinct."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from broker.event.envelope import EventType
from broker.event.identity import Mint
from broker.event.writing import write_event

FLIGHT: Final = EventType("flight", "1.1")
STREAM: Final = "flights"
#: Length in bytes of every payload, as in the measurements of the peers.
PAYLOAD_BYTES: Final = 262
#: A query with a predicate that about half of the payloads match.
HIGH: Final = "/flight[flightleg/altitude > 274]"

_RECORD: Final = (
    b"<flight><id>UAL%d</id><timestamp>%s</timestamp>"
    b'<flightleg status="active"><speed type="ground">%03d</speed>'
    b'<altitude type="reported" mode="plain">%03d</altitude>'
    b"<coordinate><lat>%02d%02dN</lat><lon>%03d%02dW</lon></coordinate></flightleg></flight>"
)


def flight_payload(number: int, timestamp: bytes | None = None) -> bytes:
    """Payload `number`; `timestamp` takes the place of a time of 2026 and has its 24 characters."""
    if timestamp is None:
        seconds, millis = divmod(number, 1000)
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        timestamp = b"2026-11-20T%02d:%02d:%02d.%03dZ" % (hours % 24, minutes, seconds, millis)
    return _RECORD % (
        1000 + number % 1000,
        timestamp,
        400 + number * 7 % 200,
        _altitude(number),
        30 + number % 20,
        number * 3 % 60,
        70 + number % 53,
        number * 11 % 60,
    )


def is_high(number: int) -> bool:
    """Whether payload `number` matches `HIGH`."""
    return _altitude(number) > 274


def flight_documents(mint: Mint, count: int, first: int = 0) -> Iterator[bytes]:
    """Events with these payloads in their envelopes; the ids are minted in order."""
    now = time.time_ns() // 1_000_000
    for number in range(first, first + count):
        yield write_event(mint.next(now), STREAM, FLIGHT, flight_payload(number))


def _altitude(number: int) -> int:
    return 100 + number * 13 % 350
