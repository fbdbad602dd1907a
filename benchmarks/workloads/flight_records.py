"""Flight records of several forms: one or two legs, with and without a position."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from benchmarks.harness.flights import FLIGHT, STREAM, report_of, time_of
from broker.event.event_id import EventIdGenerator
from broker.event.writer import write_event

#: One flight in four has two legs, one in nine has no position.
_SECOND_LEG: Final = 4
_NO_POSITION: Final = 9


def flight_events(event_ids: EventIdGenerator, count: int, first: int = 0) -> Iterator[bytes]:
    """Distinct events of about 1 kB in four forms: one or two legs, with and without a position."""
    now = time.time_ns() // 1_000_000
    for number in range(first, first + count):
        yield write_event(event_ids.next_id(now), STREAM, FLIGHT, flight_record(number))


def flight_record(number: int) -> bytes:
    values = report_of(number)
    legs = [_leg("active", values.speed, values.altitude)]
    if number % _SECOND_LEG == _SECOND_LEG - 1:
        planned = report_of(~number)
        legs.append(_leg("planned", planned.speed, planned.altitude))
    if number % _NO_POSITION:
        (north, minutes_north), (west, minutes_west) = values.latitude, values.longitude
        place = (
            f"<coordinate><lat>{north:02d}{minutes_north:02d}N</lat>"
            f"<lon>{west:03d}{minutes_west:02d}W</lon></coordinate></flightleg>"
        )
        legs[0] = legs[0].replace("</flightleg>", place)
    return (
        f"<flight><id>{values.flight_id}</id><timestamp>{time_of(number).decode()}</timestamp>"
        f"{''.join(legs)}</flight>"
    ).encode()


def _leg(status: str, speed: int, altitude: int) -> str:
    return (
        f'<flightleg status="{status}"><speed type="ground">{speed:03d}</speed>'
        f'<altitude type="reported" mode="plain">{altitude:03d}</altitude></flightleg>'
    )
