"""Flight events: the papers' record with the time of the report, 262 bytes, all distinct.

Values are independent and evenly spread, so the share of matching events is known.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import attrs

from broker.event.envelope import EventType
from broker.event.event_id import EventIdGenerator
from broker.event.writer import write_event

FLIGHT: Final = EventType("flight", "1.1")
STREAM: Final = "flights"
#: As in the measurements of the peers.
PAYLOAD_BYTES: Final = 262
#: Half of the payloads match.
HIGH: Final = "/flight[flightleg/altitude > 274]"
#: A tenth of the payloads match.
LOW: Final = "/flight[flightleg/altitude < 135]"

AIRLINES: Final = (
    *("AAL", "ACA", "AFR", "ASA", "BAW", "COA", "DAL", "DLH", "EDV", "ENY", "FDX", "FFT"),
    *("GJS", "HAL", "JBU", "JIA", "KLM", "MXY", "NKS", "NWA", "PDT", "QFA", "QXE", "RPA"),
    *("SKW", "SWA", "SWR", "TWA", "UAL", "UPS", "USA", "VIR"),
)
#: The same number for each airline.
FLEET: Final = 20_000
#: Inclusive: hundreds of feet, knots, whole degrees north and west.
ALTITUDES: Final = range(100, 450)
SPEEDS: Final = range(250, 600)
LATITUDES: Final = range(25, 50)
LONGITUDES: Final = range(67, 125)

_RECORD: Final = (
    b"<flight><id>%s</id><timestamp>%s</timestamp>"
    b'<flightleg status="active"><speed type="ground">%03d</speed>'
    b'<altitude type="reported" mode="plain">%03d</altitude>'
    b"<coordinate><lat>%02d%02dN</lat><lon>%03d%02dW</lon></coordinate></flightleg></flight>"
)
#: Of splitmix64, as good as random for consecutive inputs.
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_WORD: Final = (1 << 64) - 1


@attrs.frozen
class Report:
    flight_id: str
    speed: int
    altitude: int
    latitude: tuple[int, int]
    """Degrees and minutes."""
    longitude: tuple[int, int]


def flight_id(aircraft: int) -> str:
    """Return the id of an aircraft from 0 to FLEET - 1, such as `UAL1021`."""
    rank, airline = divmod(aircraft, len(AIRLINES))
    # The factor is coprime to 9,000, so each airline's numbers are distinct.
    return f"{AIRLINES[airline]}{1000 + rank * 7919 % 9000}"


def report_of(number: int) -> Report:
    bits = _mix_bits(number)
    bits, aircraft = divmod(bits, FLEET)
    bits, speed = divmod(bits, len(SPEEDS))
    bits, altitude = divmod(bits, len(ALTITUDES))
    # 64 bits are too few for four more independent values.
    more = _mix_bits(~number & _WORD)
    more, latitude = divmod(more, len(LATITUDES))
    more, longitude = divmod(more, len(LONGITUDES))
    more, north = divmod(more, 60)
    return Report(
        flight_id(aircraft),
        SPEEDS[speed],
        ALTITUDES[altitude],
        (LATITUDES[latitude], north),
        (LONGITUDES[longitude], more % 60),
    )


def flight_payload(number: int, timestamp: bytes | None = None) -> bytes:
    """`timestamp` has 24 characters too."""
    values = report_of(number)
    return _RECORD % (
        values.flight_id.encode(),
        time_of(number) if timestamp is None else timestamp,
        values.speed,
        values.altitude,
        *values.latitude,
        *values.longitude,
    )


def time_of(number: int) -> bytes:
    """One millisecond after the one before."""
    seconds, millis = divmod(number, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return b"2026-11-20T%02d:%02d:%02d.%03dZ" % (hours % 24, minutes, seconds, millis)


def is_high(number: int) -> bool:
    return report_of(number).altitude > 274


def is_low(number: int) -> bool:
    return report_of(number).altitude < 135


def flight_documents(event_ids: EventIdGenerator, count: int, first: int = 0) -> Iterator[bytes]:
    """Ids are given in order."""
    now = time.time_ns() // 1_000_000
    for number in range(first, first + count):
        yield write_event(event_ids.next_id(now), STREAM, FLIGHT, flight_payload(number))


def _mix_bits(number: int) -> int:
    bits = (number + 1) * _STEP & _WORD
    bits = (bits ^ bits >> 30) * _FIRST & _WORD
    bits = (bits ^ bits >> 27) * _SECOND & _WORD
    return bits ^ bits >> 31
