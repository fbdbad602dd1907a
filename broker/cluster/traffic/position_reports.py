"""Requests that report this node's position to an origin node, without a missing range.

The origin node may run on an older copy of its log, started by a clock that is behind. Or this node
has given up places that the origin never had: other nodes have announced them. Then the origin
continues behind this node's position (`docs/protocols/histories.md`).
"""

from __future__ import annotations

from collections.abc import Callable

from broker.cluster.address import Address
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.known_histories import KnownHistories
from broker.cluster.traffic.missing_range import MAX_RETRY_SECONDS
from broker.cluster.traffic.received_range import RequestPage
from broker.event.flow import origin_of
from broker.event.place import Mark


class PositionReports:
    def __init__(self, histories: KnownHistories, begins_after: Callable[[str], Mark]) -> None:
        """`begins_after` returns the mark behind which the log here has an origin."""
        self._histories = histories
        self._begins_after = begins_after
        self._sent_at: dict[str, float] = {}

    def is_due(self, origin: str, span: Range, position: Mark) -> bool:
        """Return whether an earlier range shows that its origin does not have the position."""
        if span.upto[0] < position[0]:
            return True
        return span.upto < position == self._begins_after(origin)

    def report(self, origin: str, node: Address, position: Mark, now: float) -> list[RequestPage]:
        """Return at most one request in 5 s."""
        if now - self._sent_at.get(origin, float("-inf")) < MAX_RETRY_SECONDS / 6:
            return []
        self._sent_at[origin] = now
        path = self._histories.path_to(origin_of(origin), position)
        return [RequestPage(node, origin, position, path=path)]
