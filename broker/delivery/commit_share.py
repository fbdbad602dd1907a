"""Events on their way to one link: for whom, in which portions, and how many may wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TypeAlias

import attrs

from broker.delivery.feed import Feed
from broker.event.envelope import Liveness
from broker.log.chunk import split_by_size
from broker.log.logged_event import LoggedEvent
from broker.wire.event_batch import EncodedEvents, encode_events

#: A delivery holds at most about this much, unless a single event does.
DELIVERY_BYTES = 256 * 1024

#: So many neighbouring events for the same subscriptions.
RecipientRun: TypeAlias = tuple[int, list[Feed]]


@attrs.frozen
class QueueLimits:
    """How much may wait for a slow transient subscriber; beyond it the oldest are dropped."""

    events: int = 10_000
    bytes: int = 64 << 20
    delivery: int = DELIVERY_BYTES
    """Bytes of one delivery: where frames or the session's window are small, less than usual."""


@attrs.frozen(slots=True, eq=False)
class CommitShare:
    """What one link gets of a commit, in order.

    The list of events may be the very one that other links get: nobody changes it.
    """

    events: list[LoggedEvent]
    runs: deque[RecipientRun]
    """The subscriptions of each event; the counts add up to the number of events."""


@attrs.define(slots=True, eq=False)
class Portion:
    """Some of a share's events, few enough to make one delivery."""

    events: list[LoggedEvent]
    level: int
    """The highest of their ranks."""
    encoded: EncodedEvents | None = None


class SharedEncodings:
    """What the links of one commit share: each set of events is cut up and encoded once."""

    def __init__(self) -> None:
        # With the list itself, so that its identity stays its own.
        self._portions: dict[tuple[int, int], tuple[list[LoggedEvent], list[Portion]]] = {}
        self._selections: dict[tuple[int, ...], EncodedEvents] = {}

    def split_portions(self, max_bytes: int, events: list[LoggedEvent]) -> list[Portion]:
        """The events in deliveries of about `most` bytes each."""
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
        """The encoding of all events of a portion."""
        if portion.encoded is None:
            portion.encoded = encode_events(portion.events)
        return portion.encoded

    def encode_selection(self, events: list[LoggedEvent]) -> EncodedEvents:
        """The encoding of events that were picked out of a portion."""
        key = tuple([event.serial for event in events])
        encoded = self._selections.get(key)
        if encoded is None:
            encoded = self._selections[key] = encode_events(events)
        return encoded


def encode_runs(feeds: Iterable[list[Feed]]) -> list[RecipientRun]:
    """Neighbours that are for the same subscriptions, counted."""
    return [(len(list(group)), same) for same, group in groupby(feeds)]


def take_runs(runs: deque[RecipientRun], events: int) -> list[RecipientRun]:
    """Take the runs of the first `events` events off the left."""
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
    """What lies up to the serial `cut` was missed; what follows is only late."""
    missed = [event for event in events if event.serial <= cut]
    if missed:
        yield Liveness.RECOVERY, missed
    if len(missed) < len(events):
        yield Liveness.LIVE, events[len(missed) :]
