"""Search of a log for one event, by the time of its EventId."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgpack

from broker.event.event_id import EventId
from broker.log.damage import DamageFound
from broker.log.event_log import EventLog
from broker.log.logged_event import LoggedEvent

#: Largest lead of a publisher's clock at which its event is found.
MAX_CLOCK_LEAD_MS: Final = 600_000
#: Most clocks lead by less; the log is searched from there first.
USUAL_CLOCK_LEAD_MS: Final = 1_000
#: In each of the two ranges; further ones are not searched.
MAX_PAGES: Final = 100
PAGE_EVENTS: Final = 256
PAGE_BYTES: Final = 1 << 20


def event_id_of(event: LoggedEvent) -> EventId:
    client_id, timestamp, number, incarnation, *_ = msgpack.unpackb(event.record)
    return EventId(client_id, timestamp, number, incarnation)


async def search_log(
    log: EventLog, timestamp: int, is_about: Callable[[LoggedEvent], bool]
) -> tuple[LoggedEvent | None, bool]:
    """Return the event if found, and whether part of the log was not searched.

    `timestamp` is that of its EventId. Another event with the same EventId does not stop the
    search; its duration would reveal that event.
    """
    partly = False
    near, far = (
        log.first_at(max(0, timestamp - ms)) for ms in (USUAL_CLOCK_LEAD_MS, MAX_CLOCK_LEAD_MS)
    )
    for start, end in ((near, log.bounds.last + 1), (far, near)):
        serial = max(start, log.bounds.first)
        for _ in range(MAX_PAGES):
            if serial >= end:
                break
            try:
                events = await log.read(serial, PAGE_EVENTS, PAGE_BYTES, wait=False)
            except DamageFound as found:
                serial = found.damage.last + 1
                continue
            for event in events:
                if is_about(event):
                    return event, False
            serial = events[-1].serial + 1 if events else end
        partly = partly or serial < end
    return None, partly
