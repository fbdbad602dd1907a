"""One merge by time: the events of one rule, and whom they wait for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from broker.event.merging.bursts import Bursts, StreamTime
from broker.event.merging.held import Held
from broker.event.merging.sources import Sources
from broker.event.merging.vocabulary import Rule

T = TypeVar("T")


class Group(Generic[T]):
    """Its bursts, its publishers, and the streams of its order that nobody has spoken on yet."""

    def __init__(self, rule: Rule, began: float, expects: Callable[[str], bool]) -> None:
        """`expects` tells whether a stream's events can come at all."""
        self.bursts: Bursts[T] = Bursts(rule.constraint)
        self._began = began
        self._publishers: dict[str, None] = {}
        self._unheard = {
            number
            for number, entry in enumerate(rule.order)
            if entry.is_bundle or expects(entry.name)
        }

    def heard(self, client_id: str, lanes: Sequence[int]) -> None:
        """A publisher has spoken on these entries of the order."""
        self._publishers[client_id] = None
        self._unheard.difference_update(lanes)

    def release(self, sources: Sources, now: float, idle: float) -> list[Held[T]]:
        """The events that nothing can come before any more."""
        if not len(self.bursts):
            return []
        return self.bursts.release(self._stream_time(sources, now, idle))

    def _stream_time(self, sources: Sources, now: float, idle: float) -> StreamTime:
        """Who was silent for `idle` seconds is not waited for."""
        laggard, least, others_least = "", math.inf, math.inf
        if self._unheard and now - self._began < idle:
            least = others_least = sources.all_passed
        for client_id in list(self._publishers):
            source = sources.get(client_id)
            if source is None or now - source.heard_at >= idle:
                # It is added again when it speaks.
                del self._publishers[client_id]
            elif (time_ms := sources.time_of(source)) < least:
                laggard, least, others_least = client_id, time_ms, least
            else:
                others_least = min(others_least, time_ms)
        return StreamTime(least, laggard, others_least)
