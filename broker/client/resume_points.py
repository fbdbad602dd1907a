"""Resume points of a client's durable subscriptions, for its next process.

They go to the client's file, if any, and to the node, which confirms committed positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker.client.effects import Effect, ResumePoint, SavePositions
from broker.client.subscription_state import SubscriptionState
from broker.errors import ProtocolError
from broker.event.place import Position
from broker.wire.codec import Schema, WirePosition
from broker.wire.messages import Ask

#: The answer is the committed position of each durable subscription.
POSITIONS_REQUEST: Final = "durable-positions"
#: Seconds until the request is repeated.
CONFIRMATION_INTERVAL: Final = 0.5
_POSITION: Final = Schema[WirePosition](WirePosition, "position")


class ResumePoints:
    def __init__(self, points: Mapping[str, ResumePoint]) -> None:
        self._points = dict(points)
        self.unconfirmed: dict[str, Position] = {}
        self._requested: dict[int, Mapping[str, Position]] = {}

    def __len__(self) -> int:
        return len(self._points)

    def find(self, name: str) -> ResumePoint:
        """Return a resume point, with an empty position if none is known."""
        return self._points.get(name, ResumePoint(Position()))

    def mark_unconfirmed(self, subscription: SubscriptionState) -> None:
        self.unconfirmed[subscription.request.durable] = subscription.processed_position

    def update(self, subscription: SubscriptionState) -> None:
        name = subscription.request.durable
        if name and subscription.processed_position.marks:
            node = subscription.previous_node or self.find(name).node
            self._points[name] = ResumePoint(subscription.processed_position, node)

    def remove(self, name: str) -> None:
        self._points.pop(name, None)
        self.unconfirmed.pop(name, None)

    def save(self) -> list[Effect]:
        return [SavePositions(dict(self._points))]

    def make_confirmation_request(self, request: int) -> Ask:
        self._requested[request] = dict(self.unconfirmed)
        return Ask(request, POSITIONS_REQUEST, {})

    def is_confirmation(self, request: int) -> bool:
        return request in self._requested

    def apply_confirmation(self, request: int, content: Any) -> None:
        """Apply the node's committed positions; malformed ones count as none."""
        asked = self._requested.pop(request)
        for name, position in asked.items():
            if self.unconfirmed.get(name) == position and _covers(content, name, position):
                del self.unconfirmed[name]


def _covers(content: Any, name: str, position: Position) -> bool:
    try:
        stored = Position.from_wire(_POSITION.convert(content[name])).marks
    except (ProtocolError, TypeError, LookupError):
        return False
    return all(stored.get(origin, (0, 0)) >= mark for origin, mark in position.marks.items())
