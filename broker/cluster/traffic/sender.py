"""What a node sends of one origin, and how far each destination has been sent it.

For its own events that is a node as their origin; for those of others it is the node by which they
enter a unit. What is remembered is soft: who finds that something is missing asks the origin, and
where the sender does not know what it has sent, it begins anew and says so by `after`.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby
from typing import TypeAlias

import attrs

from broker.cluster.address import Address
from broker.cluster.traffic.frame import (
    MAX_DESTINATIONS,
    MAX_HOPS,
    PLAIN,
    Frame,
    FrameEvent,
    Range,
    encode_level_runs,
    encode_mark_runs,
)
from broker.event.place import Mark, NamedHistory

#: Whether events of a security level's rank may go to a destination, on the way that there is.
IsCleared: TypeAlias = Callable[[Address, int], bool]

#: A destination that is sent nothing more is told where it has to stand once more after so many
#: calls of `progress`, and then each time after as many as the last: if frames were lost, it learns
#: so. The last time is later than it takes to notice that a silent link is down.
PROGRESS_REPEATS = (1, 2, 4, 8, 16, 32, 64)
#: Who lacks at most so many places is sent new events while it reads those: it can hold them.
MAX_LIVE_LAG = 256
#: Of so many frames that came last it is remembered from which home they came.
RECENT_FRAMES = 8


@attrs.frozen(slots=True)
class OutgoingEvent:
    """An event that is to be sent, and to whom."""

    event: FrameEvent
    level: int
    """Rank of its security level."""
    destinations: Collection[Address]


@attrs.define(slots=True, eq=False)
class _Destination:
    """How far one destination has been sent the events."""

    sent: Mark
    joined: Mark
    """Up to here events may have been matched without it."""
    is_reading: bool = False
    """It reads from the log, and is sent nothing beside."""


class OriginSender:
    """The state of one origin's events on their way from here."""

    def __init__(self, origin: str, node: Address, upto: Mark) -> None:
        """`home` is the node whose log the origin is, or who answers for it; `upto` the newest
        place that it has given."""
        self.origin = origin
        self._origin_nodes = deque([node], maxlen=RECENT_FRAMES)
        self._rotation = 0
        self._sent_upto = upto
        self._destinations: dict[Address, _Destination] = {}
        self._repeats: dict[Address, int] = {}
        """Whom to tell again, and how often `progress` was called since it was sent something."""
        # Not those of all origins at once: together they may be too much for a link.
        stagger = zlib.crc32(origin.encode())
        self._repeat_at = [time - stagger % (1 + time // 4) for time in PROGRESS_REPEATS]
        self._calls = stagger % PROGRESS_REPEATS[-1]
        self._progress_upto = upto
        """Where `progress` was called last."""
        self.history: NamedHistory | None = None
        """In which history the home logs, as far as it is known."""
        self.denied = 0
        """Events that a destination wanted, and to which no way is cleared for them."""

    def record_origin_node(self, node: Address) -> None:
        """A frame of the origin came from there: while its node is gone others answer for it, and
        one of them may have less than another."""
        self._origin_nodes.append(node)

    @property
    def destinations(self) -> Collection[Address]:
        """Who is sent something."""
        return self._destinations.keys()

    @property
    def sent_upto(self) -> Mark:
        """The newest place up to which events were sent."""
        return self._sent_upto

    @property
    def repeating(self) -> int:
        """How many are still told where they have to stand."""
        return len(self._repeats)

    def set_destinations(
        self, destinations: Iterable[Address], newest: Mark, restarted: Collection[Address] = ()
    ) -> None:
        """These are all that there are. New ones, and those that are there `anew`, are sent what
        comes behind `newest`, the newest event that may have been matched without them."""
        current = set(destinations)
        for each in self._destinations.keys() - current:
            del self._destinations[each]
            self._repeats.pop(each, None)
        for each in current:
            if each not in self._destinations or each in restarted:
                self._destinations[each] = self._new_destination(newest)
                self._repeats[each] = 0

    def restart_destination(self, destination: Address, newest: Mark) -> None:
        """Events up to `newest` may have been matched without what it wants, if it is there."""
        if destination in self._destinations:
            self._destinations[destination] = self._new_destination(newest)
            self._repeats[destination] = 0

    def start_reading(self, destination: Address, after: Mark) -> None:
        """It reads what is behind `after` from the log: if that is much, then all that comes."""
        state = self._destinations.get(destination)
        if state is not None:
            epoch, offset = self._sent_upto
            state.is_reading = after[0] != epoch or after[1] + MAX_LIVE_LAG < offset
            if not state.is_reading:
                state.sent = max(self._sent_upto, state.joined)
                self._repeats[destination] = 0

    def is_reading(self, destination: Address) -> bool:
        """Whether it is sent nothing beside what it reads."""
        state = self._destinations.get(destination)
        return state is not None and state.is_reading

    def finish_reading(self, destination: Address) -> None:
        """It has read all that there is, or reads no more: it is sent what comes from here on."""
        state = self._destinations.get(destination)
        if state is not None and state.is_reading:
            state.is_reading = False
            state.sent = max(self._sent_upto, state.joined)
            self._repeats[destination] = 0

    def event_frame(
        self,
        after: Mark,
        upto: Mark,
        events: Sequence[OutgoingEvent],
        is_cleared: IsCleared,
    ) -> Frame | None:
        """The events of (after, upto] for whom they are; None if they are for nobody.

        Where `after` is not where the last ones ended, something was missed on the way here.
        """
        if upto < after:
            return None
        if after != self._sent_upto:
            for address, state in self._destinations.items():
                state.sent = max(after, state.joined)
                self._repeats[address] = 0
        self._sent_upto = upto
        frame_events: list[FrameEvent] = []
        levels: list[int] = []
        destinations: list[frozenset[Address]] = []
        for event in events:
            recipients = self._recipients(event, is_cleared)
            if recipients:
                frame_events.append(event.event)
                levels.append(event.level)
                destinations.append(recipients)
        if not frame_events:
            return None
        all_recipients = sorted(frozenset().union(*destinations))
        order = all_recipients[:MAX_DESTINATIONS]
        for each in all_recipients[MAX_DESTINATIONS:]:
            # They find a hole, and ask.
            self._destinations[each].sent = upto
            self._repeats[each] = 0
        index = {destination: i for i, destination in enumerate(order)}
        ranges = []
        for each in order:
            state = self._destinations[each]
            ranges.append(self._next_range(each, state))
            state.sent = upto
            self._repeats[each] = 0
        runs = [
            (len(list(group)), tuple(sorted(index[each] for each in recipients if each in index)))
            for recipients, group in groupby(destinations)
        ]
        return self.make_frame(ranges, frame_events, levels, runs)

    def progress_frame(self) -> Frame | None:
        """What there is to tell those who were sent nothing lately; None if that is nothing."""
        if self._sent_upto != self._progress_upto:
            self._progress_upto = self._sent_upto
            for each, state in self._destinations.items():
                if state.sent < self._sent_upto:
                    self._repeats[each] = 0
        ranges = []
        self._calls += 1
        if self._calls % PROGRESS_REPEATS[-1] == 0:
            quiet = sorted(self._destinations.keys() - self._repeats.keys())
            states = [(each, self._destinations[each]) for each in quiet]
            ranges += [
                self._next_range(each, state) for each, state in states if not state.is_reading
            ]
        for each in sorted(self._repeats):
            state = self._destinations[each]
            if state.is_reading:
                continue
            repeats = self._repeats[each] = self._repeats[each] + 1
            if state.sent < self._sent_upto or repeats in self._repeat_at:
                ranges.append(self._next_range(each, state))
                state.sent = max(state.sent, self._sent_upto)
            if repeats >= self._repeat_at[-1]:
                del self._repeats[each]
                state.joined = (0, 0)
        if not ranges:
            return None
        nodes = sorted(set(self._origin_nodes))
        self._rotation += 1
        node = nodes[self._rotation % len(nodes)]
        return self.make_frame(ranges[:MAX_DESTINATIONS], [], [], [], node)

    def _next_range(self, destination: Address, state: _Destination) -> Range:
        return Range(
            destination,
            state.sent,
            max(state.sent, self._sent_upto),
            first_after=state.joined if (0, 0) < state.joined < state.sent else None,
        )

    def make_frame(
        self,
        ranges: Sequence[Range],
        frame_events: Sequence[FrameEvent],
        levels: Sequence[int],
        runs: Sequence[tuple[int, tuple[int, ...]]],
        node: Address | None = None,
    ) -> Frame:
        """A frame of this origin; of the home that spoke last, if it does not matter of which."""
        return Frame(
            origin=self.origin,
            origin_node=node or self._origin_nodes[-1],
            level_runs=encode_level_runs(levels),
            hops=MAX_HOPS,
            ranges=ranges,
            mark_runs=encode_mark_runs([each.mark for each in frame_events]),
            recipient_runs=runs,
            encoding=PLAIN,
            record_lengths=[len(each.record) for each in frame_events],
            document_lengths=[len(each.document) for each in frame_events],
            records=b"".join([each.record for each in frame_events]),
            body=b"".join([each.document for each in frame_events]),
            history=self.history,
        )

    def _new_destination(self, newest: Mark) -> _Destination:
        return _Destination(max(newest, self._sent_upto), newest)

    def _recipients(self, event: OutgoingEvent, is_cleared: IsCleared) -> frozenset[Address]:
        recipients = set()
        for each in event.destinations:
            state = self._destinations.get(each)
            if state is None or state.is_reading or event.event.mark <= state.sent:
                continue
            if is_cleared(each, event.level):
                recipients.add(each)
            else:
                self.denied += 1
        return frozenset(recipients)
