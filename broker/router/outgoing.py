"""Events on their way to one link: for whom, in which portions, and how many may wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from broker.event.envelope import Liveness
from broker.event.place import Mark
from broker.router.feed import Feed
from broker.store.records import LoggedEvent

#: A delivery holds at most about this much, unless a single event does.
DELIVERY_BYTES = 256 * 1024


@attrs.frozen
class QueueLimits:
    """How much may wait for a slow transient subscriber; beyond it the oldest are dropped."""

    events: int = 10_000
    bytes: int = 64 << 20
    delivery: int = DELIVERY_BYTES
    """Bytes of one delivery: where frames or the session's window are small, less than usual."""


@attrs.define(slots=True, eq=False)
class Outgoing:
    """An event on its way to one link, with the subscriptions that it is for."""

    event: LoggedEvent
    feeds: list[Feed]


def portions(most: int, events: Sequence[LoggedEvent]) -> Iterator[tuple[int, int]]:
    """(start, end) of runs that make one delivery each, of about `most` bytes.

    A single event may be larger.
    """
    start = size = 0
    for i, event in enumerate(events):
        if size and size + event.size > most:
            yield start, i
            start = i
            size = 0
        size += event.size
    if start < len(events):
        yield start, len(events)


def split_at(events: list[LoggedEvent], cut: Mark) -> Iterator[tuple[Liveness, list[LoggedEvent]]]:
    """What lies up to the cut was missed; what follows is only late."""
    missed = [event for event in events if event.mark <= cut]
    if missed:
        yield Liveness.RECOVERY, missed
    if len(missed) < len(events):
        yield Liveness.LIVE, events[len(missed) :]
