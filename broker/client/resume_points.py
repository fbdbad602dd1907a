"""Positions of durable subscriptions that a client process leaves to the next one.

They go two ways: into the client's own file, where it has a state folder, and to the node. A
position counts as handed over when the node has confirmed that it is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker.client.effects import Effect, ResumePoint, SavePositions
from broker.client.subscription_state import SubscriptionState
from broker.event.place import Position
from broker.wire import fields
from broker.wire.messages import Ask

#: The question whose answer names the committed position of each durable subscription.
POSITIONS_REQUEST: Final = "durable-positions"
#: Seconds until the question is repeated, while the node stores less than it was told.
CONFIRMATION_INTERVAL: Final = 0.5


class ResumePoints:
    """What one process knows of its client's durable subscriptions, by their names."""

    def __init__(self, points: Mapping[str, ResumePoint]) -> None:
        """`points` is what the previous process wrote."""
        self._points = dict(points)
        self.unconfirmed: dict[str, Position] = {}
        """Positions that moved in this process; the node has not confirmed them yet."""
        self._requested: dict[int, Mapping[str, Position]] = {}

    def __len__(self) -> int:
        return len(self._points)

    def find(self, name: str) -> ResumePoint:
        """Where a subscription was left; an empty position if that is not known."""
        return self._points.get(name, ResumePoint(Position()))

    def mark_unconfirmed(self, subscription: SubscriptionState) -> None:
        """Note that the position of a durable subscription moved."""
        self.unconfirmed[subscription.request.durable] = subscription.processed_position

    def update(self, subscription: SubscriptionState) -> None:
        """Note the present position of a subscription for the next process."""
        name = subscription.request.durable
        if name and subscription.processed_position.marks:
            node = subscription.previous_node or self.find(name).node
            self._points[name] = ResumePoint(subscription.processed_position, node)

    def remove(self, name: str) -> None:
        """Drop a subscription that is over for good."""
        self._points.pop(name, None)
        self.unconfirmed.pop(name, None)

    def save(self) -> list[Effect]:
        """Have everything written to the client's file."""
        return [SavePositions(dict(self._points))]

    def make_confirmation_request(self, request: int) -> Ask:
        """The question whether the node has committed the unconfirmed positions."""
        self._requested[request] = dict(self.unconfirmed)
        return Ask(request, POSITIONS_REQUEST, {})

    def is_confirmation(self, request: int) -> bool:
        """Whether a request number is that of such a question."""
        return request in self._requested

    def apply_confirmation(self, request: int, content: Any) -> None:
        """Take the node's answer: the committed positions by name. Malformed ones count as none."""
        asked = self._requested.pop(request)
        for name, position in asked.items():
            if self.unconfirmed.get(name) == position and _covers(content, name, position):
                del self.unconfirmed[name]


def _covers(content: Any, name: str, position: Position) -> bool:
    try:
        stored = Position.from_wire(fields.position(content[name])).marks
    except (ValueError, TypeError, LookupError):
        return False
    return all(stored.get(origin, (0, 0)) >= mark for origin, mark in position.marks.items())
