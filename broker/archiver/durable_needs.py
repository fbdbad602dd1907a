"""Events in the archive that durable subscriptions still need."""

from __future__ import annotations

from collections.abc import Callable

from broker.archive.archive import Archive
from broker.archive.retention import DurableNeed
from broker.errors import BadName
from broker.event.place import Position
from broker.event.stream import StreamPattern
from broker.subscriptions.durable_subscriptions import DurableSubscription


def find_durable_needs(
    archive: Archive, complain: Callable[[str], object] = lambda text: None
) -> list[DurableNeed]:
    """Return the unprocessed part of each durable subscription.

    An unreadable subscription, or a damaged page of them, needs all events.
    """
    needed = []
    for (client, name), (_, stored, _) in archive.read_durables().items():
        try:
            durable = DurableSubscription.decode(stored)
            needed.append(DurableNeed(StreamPattern.parse(durable.pattern), durable.position))
        except (ValueError, TypeError, BadName) as error:
            complain(f"{name} of {client} is unreadable, so all events stay for it: {error}")
            needed.append(_ALL_EVENTS)
    for path, why in archive.read_damaged_durables().items():
        complain(f"{path} {why}, so all events stay for it")
        needed.append(_ALL_EVENTS)
    return needed


_ALL_EVENTS = DurableNeed(StreamPattern.parse(">"), Position())
