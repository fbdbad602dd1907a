"""Event generators: the flight record of the papers, and an air-traffic feed.

Equal seeds give equal events.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from broker.event.envelope import EventType
from broker.testing.air_traffic import ASDI, MadeEvent, air_traffic

__all__ = ["ASDI", "FLIGHT", "MadeEvent", "air_traffic", "flight_payloads"]

#: Version 1.1 has the time stamp.
FLIGHT: Final = EventType("flight", "1.1")
#: Of each payload, as in the compared systems.
FLIGHT_BYTES: Final = 262

_BEGIN: Final = datetime(2026, 11, 14, 2, 22, 45, tzinfo=UTC)
_CALL_SIGNS: Final = 1000
_LOWEST, _HIGHEST = 100, 449


def flight_payloads(count: int, seed: int = 0) -> Iterator[bytes]:
    """Yield valid `FLIGHT` records of 262 bytes each (checklist D88).

    Ids cycle through UAL1000 to UAL1999. Altitudes are 100 to 449 (hundreds of feet), one record a
    second.
    """
    chance = random.Random(seed)
    for number in range(count):
        moment = _BEGIN + timedelta(seconds=number)
        north, west = chance.randrange(2500, 4900), chance.randrange(7000, 12400)
        yield (
            f"<flight>"
            f"<id>UAL{1000 + number % _CALL_SIGNS}</id>"
            f"<timestamp>{moment:%Y-%m-%dT%H:%M:%S}.000Z</timestamp>"
            f'<flightleg status="active">'
            f'<speed type="ground">{chance.randrange(250, 560)}</speed>'
            f'<altitude type="reported" mode="plain">{chance.randint(_LOWEST, _HIGHEST)}</altitude>'
            f"<coordinate><lat>{_degrees(north):04}N</lat><lon>{_degrees(west):05}W</lon>"
            f"</coordinate>"
            f"</flightleg></flight>"
        ).encode()


def _degrees(hundredths: int) -> int:
    """Convert to the notation of the feed (4928: 49 degrees 28 minutes)."""
    degrees, part = divmod(hundredths, 100)
    return degrees * 100 + part * 60 // 100
