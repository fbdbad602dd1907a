"""Stream times: the time up to which nothing more comes of an origin (X15).

While a client of this node merges streams, the node asks each origin every second for its newest
mark and its wall clock. Events behind that mark are committed later than that time. The time counts
once this node has all that it wants up to the mark. So the ways of frames do not matter.

Both messages are of version 2 of the protocol: they do not pass neighbours of version 1. Where no
answer comes, the stream time stays unknown, and a merge waits as long as its own limits say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import ClassVar, Final

import attrs

from broker.cluster.address import Address
from broker.cluster.correspondence import Correspondence
from broker.cluster.flows.frame import MAX_HOPS
from broker.cluster.flows.messages import Routed
from broker.cluster.messages import register
from broker.event.place import Mark
from broker.log.event_log import EventLog
from broker.transport.alarm import Alarm
from broker.transport.clock import IClock
from broker.wire import fields
from broker.wire.codec import WireTimes

#: Origins that are asked, and whose times are sent to clients; those of more stay unknown.
MOST_ORIGINS: Final = 1_024
#: Answers of an origin that wait until the node has what lies before them.
MOST_ANSWERS: Final = 4
#: A log's id is not longer.
MOST_CHARACTERS: Final = 64
#: Seconds from the first answer until the times are sent to clients, with those of other origins.
GATHERING: Final = 0.1


def _origin(value: object) -> str:
    if len(fields.text(value)) > MOST_CHARACTERS:
        raise ValueError("an origin")
    return str(value)


@register(0x92)
@attrs.frozen
class AskTime(Routed):
    """To the home of an origin: tell its stream time."""

    least_version: ClassVar[int] = 2

    origin: str = attrs.field(converter=_origin)


@register(0x93)
@attrs.frozen
class TellTime(Routed):
    """To the asker: events of the origin behind `upto` are committed after `time`."""

    least_version: ClassVar[int] = 2

    origin: str = attrs.field(converter=_origin)
    upto: Mark = attrs.field(converter=fields.mark)
    time: int = attrs.field(converter=fields.count)
    """Ms since 1970, by the clock of the origin."""


@attrs.define
class _Told:
    """The stream times of one origin."""

    home: Address | None = None
    """The node that was asked last."""
    time: int = 0
    """The newest that counts; 0: none."""
    waiting: deque[tuple[Mark, int]] = attrs.field(factory=lambda: deque(maxlen=MOST_ANSWERS))

    def come_to(self, covered: Mark) -> None:
        while self.waiting and self.waiting[0][0] <= covered:
            _, self.time = self.waiting.popleft()


class StreamTimes:
    """Both sides, of one node."""

    def __init__(
        self,
        log: EventLog,
        clock: IClock,
        wall_clock: Callable[[], int],
        post: Correspondence | None,
        changed: Callable[[WireTimes], None],
    ) -> None:
        """`post` is None for a node without a network; `changed` gets the times after answers."""
        self._log = log
        self._wall_clock = wall_clock
        self._post = post
        self._clock = clock
        self._told: dict[str, _Told] = {}
        self._alarm = Alarm(clock, lambda: changed(self.times()))
        if post is not None:
            post.hear(AskTime, self._asked)
            post.hear(TellTime, self._answered)

    def ask(self) -> None:
        """Ask the homes of all origins: to be called each second while somebody merges."""
        post = self._post
        own = None if post is None else post.own
        if post is None or own is None:
            return
        others = [origin for origin in self._log.coverage.marks if origin != self._log.origin]
        self._told = {origin: self._told.get(origin, _Told()) for origin in others[-MOST_ORIGINS:]}
        for origin, told in self._told.items():
            for told.home in post.homes(origin)[:1]:
                post.say(AskTime(told.home, own, MAX_HOPS, origin))

    def stop(self) -> None:
        """Forget the times: nobody merges any more."""
        self._told.clear()
        self._alarm.set(None)

    def times(self) -> WireTimes:
        """Return the stream time of each origin whose events this node has, in ms; 0: unknown.

        An origin without a name stands for all that are too many.
        """
        coverage = self._log.coverage
        found = [(self._log.origin, self._wall_clock())]
        for origin in coverage:
            if origin == self._log.origin:
                continue
            if len(found) > MOST_ORIGINS:
                found.append(("", 0))
                break
            told = self._told.get(origin, _Told())
            told.come_to(coverage[origin])
            found.append((origin, told.time))
        return tuple(found)

    def _asked(self, message: AskTime) -> None:
        log, post = self._log, self._post
        if post is not None and post.own is not None and message.origin == log.origin:
            mark, now = log.coverage[log.origin], self._wall_clock()
            post.say(TellTime(message.source, post.own, MAX_HOPS, log.origin, mark, now))

    def _answered(self, message: TellTime) -> None:
        told = self._told.get(message.origin)
        if told is not None and message.source == told.home:
            # A clock that is ahead would make events of its origin late.
            told.waiting.append((message.upto, min(message.time, self._wall_clock())))
            self._alarm.set(self._clock.seconds() + GATHERING)
