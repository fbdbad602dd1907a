"""Position reports of one client: acknowledgements, and a confirmation when it closes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from broker.client.effects import Effect, ResumePoint, Send
from broker.client.resume_points import CONFIRMATION_INTERVAL, ResumePoints
from broker.client.subscription_state import SubscriptionState
from broker.event.place import Position
from broker.wire import messages
from broker.wire.codec import Message
from broker.wire.messages import Acknowledge, Answer, Goodbye

#: Processed events, or seconds, until an acknowledgement.
ACKNOWLEDGE_EVENTS: Final = 1000
ACKNOWLEDGE_AFTER: Final = 0.5


class PositionReporter:
    def __init__(
        self,
        subscriptions: Mapping[int, SubscriptionState],
        resume_points: Mapping[str, ResumePoint],
        numbers: Iterator[int],
    ) -> None:
        self._subscriptions = subscriptions
        self._numbers = numbers
        self.resume_points = ResumePoints(resume_points)
        self.is_connected = False
        self.is_closing = False
        self.is_finished = False
        """True if this end has nothing more to send, or gave up."""
        self._acknowledge_at: float | None = None
        self._save_at: float | None = None
        self._confirm_at: float | None = None

    def record_processed(
        self, subscription: SubscriptionState, position: Position, events: int, now: float
    ) -> None:
        if position.marks:
            subscription.processed_position = subscription.processed_position.merged(position)
        if subscription.request.durable:
            if position.marks:
                self.resume_points.mark_unconfirmed(subscription)
            subscription.events_since_acknowledged += events
            if self._acknowledge_at is None:
                self._acknowledge_at = now + ACKNOWLEDGE_AFTER
            if self._save_at is None:
                self._save_at = now + ACKNOWLEDGE_AFTER

    def acknowledge_positions(self) -> list[Effect]:
        """Acknowledge the positions that moved; without a connection, in the next one."""
        self._acknowledge_at = None
        if not self.is_connected:
            return []
        positions = []
        for subscription in self._subscriptions.values():
            subscription.events_since_acknowledged = 0
            if (
                subscription.request.durable
                and subscription.processed_position != subscription.acknowledged_position
            ):
                subscription.acknowledged_position = subscription.processed_position
                positions.append((subscription.number, subscription.processed_position.to_wire()))
        return [_send(Acknowledge(tuple(positions)))] if positions else []

    def save_positions(self) -> list[Effect]:
        self._save_at = None
        for subscription in self._subscriptions.values():
            self.resume_points.update(subscription)
        return self.resume_points.save() if self.resume_points else []

    # ------------------------------------------------------------------ the end

    def end_session(self) -> list[Effect]:
        if not self.is_connected:
            return []
        self.is_finished = self.is_closing
        return [*self.acknowledge_positions(), _send(Goodbye())]

    def start_closing(self) -> list[Effect]:
        """End the session when the node has committed the positions.

        Then, or if it already has, `is_finished` is True.
        """
        self.is_closing = True
        if self.is_confirmed:
            self.is_finished = not self.is_connected
            return self.end_session()
        return self.request_confirmation()

    def abandon_closing(self) -> None:
        self.is_closing = self.is_finished = True

    @property
    def is_confirmed(self) -> bool:
        return not self.resume_points.unconfirmed

    def request_confirmation(self) -> list[Effect]:
        if not self.is_closing or self.is_finished or not self.is_connected:
            return []
        return [
            *self.acknowledge_positions(),
            _send(self.resume_points.make_confirmation_request(next(self._numbers))),
        ]

    def receive_confirmation(self, message: Answer, now: float) -> list[Effect]:
        self.resume_points.apply_confirmation(message.request, message.content)
        if self.is_confirmed or message.error[0]:
            # A node of an earlier version rejects the request.
            return self.end_session()
        # The subscription may still be moving here from another node.
        self._confirm_at = now + CONFIRMATION_INTERVAL
        return []

    # ------------------------------------------------------------------ time

    def next_timeout(self) -> float | None:
        times = (self._acknowledge_at, self._save_at, self._confirm_at)
        return min([time for time in times if time is not None], default=None)

    def handle_timeout(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if self._acknowledge_at is not None and now >= self._acknowledge_at:
            effects += self.acknowledge_positions()
        if self._save_at is not None and now >= self._save_at:
            effects += self.save_positions()
        if self._confirm_at is not None and now >= self._confirm_at:
            self._confirm_at = None
            effects += self.request_confirmation()
        return effects


def _send(message: Message) -> Send:
    return Send(messages.encode(message))
