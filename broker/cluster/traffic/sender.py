"""Sending side: the events of one flow, and the position of each destination.

A node has one sender for each own flow, and one for each flow of another origin and unit that it
enters here. A sender that has lost its state starts anew, and destinations request missing events.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeAlias

import attrs

from broker.cluster.address import Address
from broker.cluster.traffic.frame import (
    MAX_DESTINATIONS,
    MAX_HOPS,
    Frame,
    encode_level_runs,
    encode_mark_runs,
)
from broker.cluster.traffic.frame_content import PLAIN
from broker.cluster.traffic.frame_range import Range
from broker.event.flow import FlowInterval
from broker.event.place import Mark, NamedHistory
from broker.streams.contract import CarriedEvent

IsCleared: TypeAlias = Callable[[Address, int], bool]

#: Calls of `progress_frame` after which an idle destination gets its position again, to notice lost
#: frames. The last is repeated. It exceeds the detection of a dead link.
PROGRESS_REPEATS = (1, 2, 4, 8, 16, 32, 64)
#: A reader can hold new frames up to this lag, in places.
MAX_LIVE_LAG = 256
RECENT_FRAMES = 8


def progress_attempt(turn: int) -> int:
    """Return the number of the route for empty ranges: each repeat takes another one.

    A node on one route may drop them all, so that nobody would find events missing.
    """
    return turn + turn // PROGRESS_REPEATS[-1]


@attrs.frozen(slots=True)
class OutgoingEvent:
    event: CarriedEvent
    level: int
    destinations: frozenset[Address]


@attrs.frozen(slots=True)
class _Recipients:
    """Destinations that get an event."""

    cleared: frozenset[Address]
    denied: int
    """Those without a cleared route."""
    sent_upto: Mark
    """Some have got the events up to here."""


@attrs.define(slots=True, eq=False)
class _Destination:
    sent: Mark
    joined: Mark
    """Earlier events may have been matched without its interest."""
    is_reading: bool = False
    """True if it reads pages of the log and gets no new frames."""


class OriginSender:
    def __init__(self, origin: str, node: Address, upto: Mark) -> None:
        """`node` serves the origin's log. `upto` is the newest place."""
        self.origin = origin
        self._origin_nodes = deque([node], maxlen=RECENT_FRAMES)
        self._rotation = 0
        self._sent_upto = upto
        self._destinations: dict[Address, _Destination] = {}
        self._repeats: dict[Address, int] = {}
        """Calls of `progress_frame` since the last range."""
        # Repeats of different origins together could overload a link.
        stagger = zlib.crc32(origin.encode())
        self._repeat_at = [time - stagger % (1 + time // 4) for time in PROGRESS_REPEATS]
        self._calls = stagger % PROGRESS_REPEATS[-1]
        self._progress_upto = upto
        self.history: NamedHistory | None = None
        self.intervals: Sequence[FlowInterval] = ()
        self.denied = 0
        """Events without a cleared route to an interested destination."""

    def record_origin_node(self, node: Address) -> None:
        """Record an origin node. While it is gone, nodes with replicas alternate."""
        self._origin_nodes.append(node)

    @property
    def destinations(self) -> Collection[Address]:
        return self._destinations.keys()

    @property
    def sent_upto(self) -> Mark:
        return self._sent_upto

    def set_destinations(
        self, destinations: Iterable[Address], newest: Mark, restarted: Collection[Address] = ()
    ) -> None:
        """Replace the destinations; new and `restarted` ones get the events behind `newest`.

        Earlier events may have been matched without their interest.
        """
        current = set(destinations)
        for each in self._destinations.keys() - current:
            del self._destinations[each]
            self._repeats.pop(each, None)
        for each in current:
            if each not in self._destinations or each in restarted:
                self._destinations[each] = self._new_destination(newest)
                self._repeats[each] = 0

    def restart_destination(self, destination: Address, newest: Mark) -> None:
        if destination in self._destinations:
            self._destinations[destination] = self._new_destination(newest)
            self._repeats[destination] = 0

    def start_reading(self, destination: Address, after: Mark) -> None:
        """Record that a destination reads the log behind `after`.

        If it lags more than `MAX_LIVE_LAG` places, it gets no new frames until `finish_reading`.
        """
        state = self._destinations.get(destination)
        if state is not None:
            epoch, offset = self._sent_upto
            state.is_reading = after[0] != epoch or after[1] + MAX_LIVE_LAG < offset
            if not state.is_reading:
                state.sent = max(self._sent_upto, state.joined)
                self._repeats[destination] = 0

    def is_reading(self, destination: Address) -> bool:
        state = self._destinations.get(destination)
        return state is not None and state.is_reading

    def finish_reading(self, destination: Address) -> None:
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
        """Return a frame with the events of (after, upto]; None without recipients.

        If `after` is not the end of the last call, this node missed events. Then all ranges start
        at `after`, so that destinations find the missing range.
        """
        if upto < after:
            return None
        self._begin_range(after, upto)
        frame_events: list[CarriedEvent] = []
        levels: list[int] = []
        destinations: list[frozenset[Address]] = []
        for event, recipients in self._with_recipients(events, is_cleared):
            if recipients:
                frame_events.append(event.event)
                levels.append(event.level)
                destinations.append(recipients)
        if not frame_events:
            return None
        all_recipients = sorted(frozenset().union(*destinations))
        order = all_recipients[:MAX_DESTINATIONS]
        for each in all_recipients[MAX_DESTINATIONS:]:
            # They find a missing range and request it.
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

    def record_events(
        self, upto: Mark, events: Sequence[OutgoingEvent], is_cleared: IsCleared
    ) -> None:
        """Record events behind the last ones, up to a mark, that another way sends."""
        self._begin_range(self._sent_upto, upto)
        recipients = frozenset[Address]().union(
            *(found for _, found in self._with_recipients(events, is_cleared))
        )
        for each in recipients:
            self._destinations[each].sent = upto
            self._repeats[each] = 0

    def _begin_range(self, after: Mark, upto: Mark) -> None:
        if after != self._sent_upto:
            for address, state in self._destinations.items():
                state.sent = max(after, state.joined)
                self._repeats[address] = 0
        self._sent_upto = upto

    def progress_frame(self) -> Frame | None:
        """Return empty ranges for idle destinations, None if none are due. Call once a second."""
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
        frame_events: Sequence[CarriedEvent],
        levels: Sequence[int],
        runs: Sequence[tuple[int, tuple[int, ...]]],
        node: Address | None = None,
    ) -> Frame:
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
            intervals=self.intervals,
        )

    def _new_destination(self, newest: Mark) -> _Destination:
        return _Destination(max(newest, self._sent_upto), newest)

    def _with_recipients(
        self, events: Iterable[OutgoingEvent], is_cleared: IsCleared
    ) -> Iterator[tuple[OutgoingEvent, frozenset[Address]]]:
        """Yield each event, in their order, with the destinations that get it.

        Routes are looked up once for events with equal destinations and levels.
        """
        found: dict[tuple[frozenset[Address], int], _Recipients] = {}
        for event in events:
            key = event.destinations, event.level
            recipients = found.get(key)
            if recipients is None:
                recipients = self._find_recipients(event, is_cleared)
                if recipients.sent_upto < event.event.mark:
                    found[key] = recipients
            self.denied += recipients.denied
            yield event, recipients.cleared

    def _find_recipients(self, event: OutgoingEvent, is_cleared: IsCleared) -> _Recipients:
        cleared, denied, sent_upto = [], 0, (0, 0)
        for each in event.destinations:
            state = self._destinations.get(each)
            if state is None or state.is_reading:
                continue
            sent_upto = max(sent_upto, state.sent)
            if event.event.mark <= state.sent:
                continue
            if is_cleared(each, event.level):
                cleared.append(each)
            else:
                denied += 1
        return _Recipients(frozenset(cleared), denied, sent_upto)
