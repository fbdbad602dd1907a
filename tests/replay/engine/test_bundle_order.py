from __future__ import annotations

from pathlib import Path

from broker.archive.archive import Archive
from broker.archive.writer import ArchiveWriter
from broker.event.envelope import Bundle, EventLinkage, EventType, Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.writer import write_event
from broker.log.logged_event import LoggedEvent, encode_header
from broker.replay.engine.local_engine import LocalEngine
from broker.replay.request import ReplayRequest
from tests.recovery.answers import answers
from tests.recovery.world import BEGIN, CATALOGUE, ORIGINS

#: By arrival, each of a different publisher; None: in no bundle.
ARRIVING = (3, None, 1, 2, None, 5, 4)


def bundled(place: int, number: int | None) -> LoggedEvent:
    bundles = () if number is None else (Bundle("b", number),)
    linkage = EventLinkage(bundles, merge_scheme="bundle" if bundles else None)
    header = Header(
        EventId(f"p{place}", BEGIN + place, 1, 1),
        *("notes", "event", "1.0", SecurityLevel.MED, Liveness.LIVE),
    )
    document = write_event(header.event_id, "notes", EventType("event", "1.0"), linkage=linkage)
    return LoggedEvent(
        *(1, place + 1, BEGIN + place, 1, encode_header(header), document, ORIGINS[0], 0)
    )


def test_only_events_of_a_bundle_are_reordered(tmp_path: Path) -> None:
    archive = Archive.open(str(tmp_path / "archive"))
    events = [bundled(place, number) for place, number in enumerate(ARRIVING)]
    covers = [(ORIGINS[0], (1, 0), events[-1].mark)]
    ArchiveWriter(archive, "node", lambda: BEGIN).write(covers, events, {})
    requests = [ReplayRequest(">", "true()", order=order) for order in ("publisher", "bundle")]
    (_, plain), (report, merged) = answers(
        LocalEngine(archive, CATALOGUE), requests, tmp_path / "spool"
    )
    assert [event.offset for event in plain] == [1, 2, 3, 4, 5, 6, 7]
    numbers = [ARRIVING[event.offset - 1] for event in merged]
    assert [number for number in numbers if number is not None] == [1, 2, 3, 4, 5]
    assert [place for place, number in enumerate(numbers) if number is None] == [1, 4]
    assert report.events == len(ARRIVING)
