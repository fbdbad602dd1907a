"""Stream time: how far the publishers have got, by their own events and by their nodes.

A TimeStamp never falls within an incarnation and a publisher's events come in its order, so each
of its events, whatever its stream, tells that nothing earlier of that publisher is to come: it is
the punctuation of all streams that it publishes on.

A node sends the stream times of origins: later events of an origin were committed after that time.
So a publisher that is silent has passed the stream time of its origin, less the time that an event
takes from its TimeStamp to its commit.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

import attrs

from broker.event.identity import EventId

#: The publishers whose time is remembered; of more, the longest silent is forgotten.
PUBLISHERS_REMEMBERED: Final = 10_000


@attrs.define(eq=False)
class Source:
    """One publisher."""

    incarnation: int
    time_ms: int
    """Its newest time stamp."""
    heard_at: float
    """Seconds."""
    origin: str
    """The log that its newest event came from."""


class Sources:
    """The publishers that were heard, and the stream times of their origins."""

    def __init__(self, delay: float = 0.0) -> None:
        """`delay`: seconds from a TimeStamp to the commit of its event, at most."""
        self._sources: OrderedDict[str, Source] = OrderedDict()
        self._delay_ms = delay * 1000
        self._origins: Mapping[str, int] = {}

    def passed(self, times: Mapping[str, int]) -> None:
        """Take the newest stream times of all origins, in ms since 1970; 0: not known."""
        self._origins = times

    @property
    def all_passed(self) -> float:
        """The TimeStamp (ms) that every origin has passed."""
        return min(map(self._passed, self._origins), default=-math.inf)

    def time_of(self, source: Source) -> float:
        """Return the TimeStamp (ms) that a publisher has passed."""
        return max(source.time_ms, self._passed(source.origin))

    def _passed(self, origin: str) -> float:
        time_ms = self._origins.get(origin, 0)
        return time_ms - self._delay_ms if time_ms else -math.inf

    def heard(self, event_id: EventId, now: float, origin: str = "") -> None:
        """An event of a publisher has come. Another process of it may have another clock."""
        client_id, time_ms, _, incarnation = event_id
        source = self._sources.get(client_id)
        if source is None:
            self._sources[client_id] = Source(incarnation, time_ms, now, origin)
            if len(self._sources) > PUBLISHERS_REMEMBERED:
                self._sources.popitem(last=False)
            return
        self._sources.move_to_end(client_id)
        source.heard_at, source.origin = now, origin
        if incarnation > source.incarnation:
            source.incarnation, source.time_ms = incarnation, time_ms
        elif incarnation == source.incarnation:
            source.time_ms = max(source.time_ms, time_ms)

    def get(self, client_id: str) -> Source | None:
        """A publisher, if it is remembered."""
        return self._sources.get(client_id)
