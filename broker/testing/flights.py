"""Events about flights, and interests in them, for simulations."""

from __future__ import annotations

import re
from collections.abc import Callable

import attrs
import msgpack

from broker.event.envelope import EventType, Header
from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent, header_from_fields

FLIGHT = EventType("flight", "1.0")
STREAMS = ("asdi.zbw.tz", "asdi.zny.tz", "asdi.zny.ho", "other")


def flight(altitude: int, size: int = 0) -> bytes:
    """`size` is the padding of the id."""
    return (
        f"<flight><id>F{'x' * size}</id><flightleg><altitude>{altitude}</altitude>"
        "</flightleg></flight>"
    ).encode()


def altitude_of(document: bytes) -> int:
    found = re.search(rb"<altitude>(\d+)<", document)
    assert found is not None
    return int(found.group(1))


@attrs.frozen
class Interest:
    """`matches` is the same condition in Python."""

    pattern: str
    query: str
    matches: Callable[[str, int], bool]
    """(stream, altitude) -> True if the event matches."""


INTERESTS = (
    Interest(">", "true()", lambda stream, altitude: True),
    Interest(
        "asdi.*.tz",
        "/flight/flightleg[altitude > 500]",
        lambda stream, altitude: (
            stream.startswith("asdi.") and stream.endswith(".tz") and altitude > 500
        ),
    ),
    Interest(
        "asdi.zny.>",
        "/flight[flightleg/altitude < 300]",
        lambda stream, altitude: stream.startswith("asdi.zny.") and altitude < 300,
    ),
    Interest(">", "/flight/flightleg/altitude = 7", lambda stream, altitude: altitude == 7),
    Interest("other", "$StreamId = 'other'", lambda stream, altitude: stream == "other"),
)


@attrs.frozen
class LogEntry:
    mark: Mark
    header: Header
    altitude: int
    arrival: int
    flow: str
    """Key of its flow, if it was read with `read_logs`."""

    @classmethod
    def of(cls, event: LoggedEvent) -> LogEntry:
        header = header_from_fields(msgpack.unpackb(event.record))
        return cls(event.mark, header, altitude_of(event.document), event.arrival, event.origin)
