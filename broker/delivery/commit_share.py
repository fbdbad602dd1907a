"""A session's share of a commit: its events, recipients, and encodings."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TypeAlias

import attrs

from broker.config import Settings
from broker.delivery.feed import Feed
from broker.event.envelope import Liveness
from broker.log.chunk import split_by_size
from broker.log.logged_event import LoggedEvent
from broker.queue_memory import QueueMemory
from broker.wire.event_batch import EncodedEvents, encode_events

DELIVERY_BYTES = 256 * 1024

#: (number of events, subscriptions that match all of them).
RecipientRun: TypeAlias = tuple[int, list[Feed]]


@attrs.frozen
class QueueLimits:
    """Beyond these bounds the oldest events of a transient subscriber are dropped."""

    events: int = 10_000
    bytes: int = 64 << 20
    delivery: int = DELIVERY_BYTES
    """Less than the default if frames or the session's window are small."""
    memory: QueueMemory = attrs.field(factory=QueueMemory)
    """Of all queues of the node."""

    @classmethod
    def from_settings(cls, settings: Settings, memory: QueueMemory) -> QueueLimits:
        limits, queue = settings.limits, settings.queue
        delivery = min(DELIVERY_BYTES, limits.window_bytes // 2, limits.max_frame_bytes // 2)
        return cls(queue.events, queue.bytes, delivery, memory)


@attrs.frozen(slots=True, eq=False)
class CommitShare:
    """A session's part of a commit. Sessions may share `events`: it must not change."""

    events: list[LoggedEvent]
    runs: deque[RecipientRun]
    """Counts add up to the number of events."""


@attrs.define(slots=True, eq=False)
class Portion:
    events: list[LoggedEvent]
    level: int
    """Highest rank of a security level."""
    encoded: EncodedEvents | None = None


class SharedEncodings:
    """Encodings shared by the sessions of one commit."""

    def __init__(self) -> None:
        # The stored list keeps its id unique.
        self._portions: dict[tuple[int, int], tuple[list[LoggedEvent], list[Portion]]] = {}
        self._selections: dict[tuple[int, ...], EncodedEvents] = {}

    def split_portions(self, max_bytes: int, events: list[LoggedEvent]) -> list[Portion]:
        key = (id(events), max_bytes)
        found = self._portions.get(key)
        if found is None:
            if len(events) == 1:
                found = events, [Portion(events, events[0].level)]
            else:
                cut = [events[start:end] for start, end in split_by_size(max_bytes, events)]
                found = events, [Portion(part, max([one.level for one in part])) for part in cut]
            self._portions[key] = found
        return found[1]

    def encode_portion(self, portion: Portion) -> EncodedEvents:
        if portion.encoded is None:
            portion.encoded = encode_events(portion.events)
        return portion.encoded

    def encode_selection(self, events: list[LoggedEvent]) -> EncodedEvents:
        key = tuple([event.serial for event in events])
        encoded = self._selections.get(key)
        if encoded is None:
            encoded = self._selections[key] = encode_events(events)
        return encoded


def encode_runs(feeds: Iterable[list[Feed]]) -> list[RecipientRun]:
    """Run-length encode consecutive events with equal recipients."""
    return [(len(list(group)), same) for same, group in groupby(feeds)]


def take_runs(runs: deque[RecipientRun], events: int) -> list[RecipientRun]:
    taken = []
    while events:
        count, feeds = runs[0]
        if count > events:
            runs[0] = (count - events, feeds)
            count = events
        else:
            runs.popleft()
        taken.append((count, feeds))
        events -= count
    return taken


def split_at_cut(
    events: list[LoggedEvent], cut: int
) -> Iterator[tuple[Liveness, list[LoggedEvent]]]:
    """Split at the serial `cut`: recovery events up to it, live events behind it."""
    missed = [event for event in events if event.serial <= cut]
    if missed:
        yield Liveness.RECOVERY, missed
    if len(missed) < len(events):
        yield Liveness.LIVE, events[len(missed) :]
