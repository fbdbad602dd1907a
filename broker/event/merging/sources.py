"""Stream time: how far the publishers have got, as their own events say.

A TimeStamp never falls within an incarnation and a publisher's events come in its order, so each
of its events, whatever its stream, tells that nothing earlier of that publisher is to come: it is
the punctuation of all streams that it publishes on.
"""

from __future__ import annotations

from collections import OrderedDict
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


class Sources:
    """The publishers that were heard."""

    def __init__(self) -> None:
        self._sources: OrderedDict[str, Source] = OrderedDict()

    def heard(self, event_id: EventId, now: float) -> None:
        """An event of a publisher has come. Another process of it may have another clock."""
        client_id, time_ms, _, incarnation = event_id
        source = self._sources.get(client_id)
        if source is None:
            self._sources[client_id] = Source(incarnation, time_ms, now)
            if len(self._sources) > PUBLISHERS_REMEMBERED:
                self._sources.popitem(last=False)
            return
        self._sources.move_to_end(client_id)
        source.heard_at = now
        if incarnation > source.incarnation:
            source.incarnation, source.time_ms = incarnation, time_ms
        elif incarnation == source.incarnation:
            source.time_ms = max(source.time_ms, time_ms)

    def get(self, client_id: str) -> Source | None:
        """A publisher, if it is remembered."""
        return self._sources.get(client_id)
