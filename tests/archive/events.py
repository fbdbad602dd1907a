from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.archive.archive import Archive
from broker.archive.table import batch_to_events
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent, encode_header

#: 2026-11-20T07:00 UTC.
MORNING = 1_795_158_000_000
HOUR = 3_600_000
LEVELS = tuple(sorted(SecurityLevel))


def event(
    number: int,
    *,
    origin: str = "aa",
    epoch: int = 1,
    stream: str = "s",
    arrival: int | None = None,
    document: bytes | None = None,
) -> LoggedEvent:
    header = Header(
        EventId("client", MORNING + number, number, 1),
        stream,
        "event",
        "1.0",
        LEVELS[number % 3],
        (Liveness.LIVE, Liveness.RECOVERY)[number % 2],
    )
    return LoggedEvent(
        epoch,
        number,
        MORNING + number if arrival is None else arrival,
        number % 3,
        encode_header(header),
        b"<e n='%d'/>" % number if document is None else document,
        origin,
        0,
    )


def events(numbers: Iterable[int], *, origin: str = "aa", epoch: int = 1) -> list[LoggedEvent]:
    """Make events that alternate between three streams."""
    return [
        event(number, origin=origin, epoch=epoch, stream=f"s{number % 3}") for number in numbers
    ]


def covering(made: Sequence[LoggedEvent]) -> list[tuple[str, Mark, Mark]]:
    """The events have no missing places."""
    first, last = made[0], made[-1]
    return [(first.origin, (first.epoch, first.offset - 1), last.mark)]


def everything_in(archive: Archive) -> list[LoggedEvent]:
    """Repeated places are repeated."""
    files = archive.state().files.values()
    found = [
        each
        for file in files
        for batch in archive.read(file, checked=True)
        for each in batch_to_events(batch)
    ]
    return sorted(found, key=lambda each: (each.origin, each.mark))


def same(some: Sequence[LoggedEvent], others: Sequence[LoggedEvent]) -> bool:
    """Compare events without serials."""
    return list(map(_content, some)) == list(map(_content, others))


def once(found: Sequence[LoggedEvent]) -> list[LoggedEvent]:
    """Keep each place once; AssertionError if one place has two contents."""
    by_place: dict[object, LoggedEvent] = {}
    for each in found:
        known = by_place.setdefault(each.place, each)
        assert same([known], [each]), f"{each.place} is two events"
    return list(by_place.values())


def _content(each: LoggedEvent) -> tuple[object, ...]:
    return (each.place, each.arrival, each.level, each.record, each.document)


class Wall:
    def __init__(self, now: int = MORNING) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now
