"""Stream times: the time up to which all events of an origin have arrived (X15).

While a client merges streams, the node asks each origin every second for its newest mark and its
wall clock. Events after that mark are committed later than that time. The time is valid once this
node has all events of interest up to the mark. Neighbours of version 1 do not forward these
messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Annotated, ClassVar, Final, TypeAlias

import attrs
import msgspec

from broker.cluster.address import Address
from broker.cluster.messages import CODEC
from broker.cluster.node_messenger import NodeMessenger
from broker.cluster.traffic.frame import MAX_HOPS
from broker.cluster.traffic.messages import RoutedMessage
from broker.event.place import Mark
from broker.log.event_log import EventLog
from broker.transport.clock import IClock
from broker.transport.deadline_timer import DeadlineTimer
from broker.wire.codec import Count, WireMark, WireTimes

#: The times of further ones stay unknown.
MOST_ORIGINS: Final = 1_024
MOST_ANSWERS: Final = 4
MOST_CHARACTERS: Final = 64
#: Seconds to include other answers.
GATHER_DELAY: Final = 0.1
_Origin: TypeAlias = Annotated[str, msgspec.Meta(max_length=MOST_CHARACTERS)]


@CODEC.register
class TimeRequest(RoutedMessage, frozen=True):
    """To the origin node: request its stream time."""

    kind = 0x92
    least_version: ClassVar[int] = 2

    origin: _Origin


@CODEC.register
class TimeReply(RoutedMessage, frozen=True):
    """To the requesting node: events of the origin after `upto` are committed after `time`."""

    kind = 0x93
    least_version: ClassVar[int] = 2

    origin: _Origin
    upto: WireMark
    time: Count
    """Ms since 1970, by the clock of the origin."""


@attrs.define
class _OriginTime:
    asked_node: Address | None = None
    time: int = 0
    """0: unknown."""
    waiting: deque[tuple[Mark, int]] = attrs.field(factory=lambda: deque(maxlen=MOST_ANSWERS))

    def advance_to(self, covered: Mark) -> None:
        while self.waiting and self.waiting[0][0] <= covered:
            _, self.time = self.waiting.popleft()


class StreamTimes:
    def __init__(
        self,
        log: EventLog,
        clock: IClock,
        wall_clock: Callable[[], int],
        messenger: NodeMessenger | None,
        changed: Callable[[WireTimes], None],
    ) -> None:
        """None: a node without a network."""
        self._log = log
        self._wall_clock = wall_clock
        self._messenger = messenger
        self._clock = clock
        self._origins: dict[str, _OriginTime] = {}
        self._ordered: dict[str, _OriginTime] = {}
        """By own ordered flow."""
        self._timer = DeadlineTimer(clock, lambda: changed(self.times()))
        if messenger is not None:
            messenger.add_listener(TimeRequest, self._receive_request)
            messenger.add_listener(TimeReply, self._receive_reply)

    def request_times(self) -> None:
        """Call each second during a merge."""
        messenger = self._messenger
        own = None if messenger is None else messenger.own_address
        if messenger is None or own is None:
            return
        is_own = self._log.flows.is_own
        others = [origin for origin in self._log.coverage.marks if not is_own(origin)]
        self._origins = {
            origin: self._origins.get(origin, _OriginTime()) for origin in others[-MOST_ORIGINS:]
        }
        for origin, times in self._origins.items():
            for times.asked_node in messenger.find_sources(origin)[:1]:
                messenger.send(TimeRequest(times.asked_node, own, MAX_HOPS, origin))

    def stop(self) -> None:
        self._origins.clear()
        self._timer.arm(None)

    def times(self) -> WireTimes:
        """Return the stream time in ms by origin; 0: unknown.

        An empty name stands for all origins beyond `MOST_ORIGINS`.
        """
        coverage = self._log.coverage
        now, flows = self._wall_clock(), self._log.flows
        own = (self._log.origin, *flows.own)
        found = [(origin, now) for origin in own if origin not in flows.ordered]
        for flow in flows.ordered:
            # Events that are withheld were committed before.
            times = self._ordered.setdefault(flow, _OriginTime())
            times.waiting.append((flows.limit(flow, coverage[self._log.origin]), now))
            times.advance_to(coverage[flow])
            found.append((flow, times.time))
        for origin in coverage:
            if flows.is_own(origin):
                continue
            if len(found) > MOST_ORIGINS:
                found.append(("", 0))
                break
            times = self._origins.get(origin, _OriginTime())
            times.advance_to(coverage[origin])
            found.append((origin, times.time))
        return tuple(found)

    def _receive_request(self, message: TimeRequest) -> None:
        log, messenger, flow = self._log, self._messenger, message.origin
        if (
            messenger is not None
            and messenger.own_address is not None
            and log.flows.is_own(flow)
            and flow in log.coverage
        ):
            # Of an ordered flow the coverage does not include committed events.
            committed = log.origin if flow in log.flows.ordered else flow
            mark, now = log.flows.limit(flow, log.coverage[committed]), self._wall_clock()
            messenger.send(
                TimeReply(message.source, messenger.own_address, MAX_HOPS, flow, mark, now)
            )

    def _receive_reply(self, message: TimeReply) -> None:
        times = self._origins.get(message.origin)
        if times is not None and message.source == times.asked_node:
            # A clock that is ahead would make its origin's events late.
            times.waiting.append((message.upto, min(message.time, self._wall_clock())))
            self._timer.arm(self._clock.seconds() + GATHER_DELAY)
