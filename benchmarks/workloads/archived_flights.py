"""An archive of flight events, and queries of which each event matches exactly one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from benchmarks.harness.flights import (
    ALTITUDES,
    FLIGHT,
    SPEEDS,
    STREAM,
    flight_documents,
    report_of,
)
from broker.archive.archive import Archive
from broker.archive.writer import ArchiveWriter
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference
from broker.event.envelope import Header
from broker.event.event_id import EventIdGenerator
from broker.log.logged_event import LoggedEvent, encode_header

ORIGIN: Final = "f1" * 8
#: 10,000 events a second for the five seconds between flushes.
FLUSH: Final = 50_000
#: 2026-11-20T07:00 UTC in ms; ten events arrive in each ms.
_MORNING: Final = 1_795_158_000_000
_EVENTS_A_MS: Final = 10
#: By number of queries: bands of altitude, bands of speed.
BANDS: Final = {1: (1, 1), 10: (5, 2), 100: (10, 10), 1_000: (50, 20)}


def band_queries(count: int) -> list[str]:
    """`count` is a key of `BANDS`."""
    high, fast = BANDS[count]
    return [
        f"/flight/flightleg[altitude >= {low} and altitude < {top} "
        f"and speed >= {slow} and speed < {quick}]"
        for low, top in _bands(ALTITUDES, high)
        for slow, quick in _bands(SPEEDS, fast)
    ]


def band_counts(count: int, events: int) -> list[int]:
    """Return the number of events of each of `band_queries(count)`."""
    high, fast = BANDS[count]
    of_altitude, of_speed = _band_of(ALTITUDES, high), _band_of(SPEEDS, fast)
    found = [0] * count
    for number in range(events):
        values = report_of(number)
        found[of_altitude[values.altitude] * fast + of_speed[values.speed]] += 1
    return found


def _band_of(values: range, count: int) -> dict[int, int]:
    bands = enumerate(_bands(values, count))
    return {value: number for number, (low, top) in bands for value in range(low, top)}


def _bands(values: range, count: int) -> Iterator[tuple[int, int]]:
    bounds = [values[0] + len(values) * n // count for n in range(count + 1)]
    return zip(bounds, bounds[1:], strict=False)


def write_flights(uri: str, count: int, say: Callable[[int], object]) -> Archive:
    """`say` gets the number so far."""
    archive = Archive.open(uri)
    writer = ArchiveWriter(archive, ORIGIN, lambda: _MORNING)
    catalogue = Catalogue.load(shipped_folder())
    reference = DtdReference(FLIGHT.name, FLIGHT.version)
    shipped = catalogue.read(reference.public_id, reference.system_id) or b""
    dtds = {reference: Dtd.load(reference, shipped, catalogue.read).text}
    event_ids = EventIdGenerator("feed", 1)
    for first in range(0, count, FLUSH):
        events = _make_logged_events(event_ids, first, min(FLUSH, count - first))
        after, upto = (1, first), events[-1].mark
        writer.write([(ORIGIN, after, upto)], events, dtds)
        say(first + len(events))
    return archive


def _make_logged_events(
    event_ids: EventIdGenerator, first: int, count: int
) -> Sequence[LoggedEvent]:
    before = event_ids.last_sequence_number
    documents = list(flight_documents(event_ids, count, first))
    events = []
    for number, document in enumerate(documents):
        identity = EventIdGenerator(
            event_ids.client_id, event_ids.incarnation, 0, before + number
        ).next_id(event_ids.last_timestamp)
        header = Header(
            identity, STREAM, FLIGHT.name, FLIGHT.version, FLIGHT.security_level, FLIGHT.liveness
        )
        events.append(
            LoggedEvent(
                *(1, first + number + 1, _MORNING + (first + number) // _EVENTS_A_MS),
                *(FLIGHT.security_level.rank, encode_header(header), document),
                *(ORIGIN, 0),
            )
        )
    return events
