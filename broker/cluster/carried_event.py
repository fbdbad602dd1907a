"""Events of the log as stream transports carry them."""

from __future__ import annotations

from broker.log.logged_event import LoggedEvent
from broker.streams.contract import CarriedEvent


def as_carried_event(event: LoggedEvent | CarriedEvent) -> CarriedEvent:
    return CarriedEvent(event.mark, event.record, event.document, event.level)
