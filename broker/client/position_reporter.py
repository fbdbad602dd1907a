"""Positions of one client: told to the node while it runs, and confirmed when it closes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from broker.client.effects import Effect, ResumePoint, Send
from broker.client.resume_points import CONFIRMATION_INTERVAL, ResumePoints
from broker.client.subscription_state import SubscriptionState
from broker.event.place import Position
from broker.wire import messages
from broker.wire.messages import Acknowledge, Answer, Goodbye, Message

#: A subscription reports its position after so many processed events, or `ACKNOWLEDGE_AFTER` s.
ACKNOWLEDGE_EVENTS: Final = 1000
ACKNOWLEDGE_AFTER: Final = 0.5


class PositionReporter:
    """Sends positions of durable subscriptions, and ends the session when they are committed."""

    def __init__(
        self,
        subscriptions: Mapping[int, SubscriptionState],
        resume_points: Mapping[str, ResumePoint],
        numbers: Iterator[int],
    ) -> None:
        """`subscriptions` are the client's at any time; `numbers` gives those of questions."""
        self._subscriptions = subscriptions
        self._numbers = numbers
        self.resume_points = ResumePoints(resume_points)
        self.is_connected = False
        self.is_closing = False
        self.is_finished = False
        """The session is over for this end: nothing is resume_points to say, or it gave up."""
        self._acknowledge_at: float | None = None
        self._save_at: float | None = None
        self._confirm_at: float | None = None

    def record_processed(
        self, subscription: SubscriptionState, position: Position, events: int, now: float
    ) -> None:
        """The user has processed `events` events of a subscription, up to `position`."""
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
        """Tell the positions that moved; with the next connection if there is none."""
        self._acknowledge_at = None
        if not self.is_connected:
            return []
        rows = []
        for subscription in self._subscriptions.values():
            subscription.events_since_acknowledged = 0
            if (
                subscription.request.durable
                and subscription.processed_position != subscription.acknowledged_position
            ):
                subscription.acknowledged_position = subscription.processed_position
                rows.append((subscription.number, subscription.processed_position.to_wire()))
        return [_send(Acknowledge(rows))] if rows else []

    def save_positions(self) -> list[Effect]:
        """Say what the next process of this client is to know of durable subscriptions."""
        self._save_at = None
        for subscription in self._subscriptions.values():
            self.resume_points.update(subscription)
        return self.resume_points.save() if self.resume_points else []

    # ------------------------------------------------------------------ the end

    def end_session(self) -> list[Effect]:
        """End the session in good order."""
        if not self.is_connected:
            return []
        self.is_finished = self.is_closing
        return [*self.acknowledge_positions(), _send(Goodbye())]

    def start_closing(self) -> list[Effect]:
        """Begin to close: the session ends when the node has committed the positions.

        `finished` tells whether that is so far, and `is_settled` whether it came about.
        """
        self.is_closing = True
        if self.is_confirmed:
            self.is_finished = not self.is_connected
            return self.end_session()
        return self.request_confirmation()

    def abandon_closing(self) -> None:
        """Wait for the node no longer."""
        self.is_closing = self.is_finished = True

    @property
    def is_confirmed(self) -> bool:
        """Whether the node has confirmed each position that moved in this process."""
        return not self.resume_points.unconfirmed

    def request_confirmation(self) -> list[Effect]:
        """While it closes: ask whether the node has committed the positions."""
        if not self.is_closing or self.is_finished or not self.is_connected:
            return []
        return [
            *self.acknowledge_positions(),
            _send(self.resume_points.make_confirmation_request(next(self._numbers))),
        ]

    def receive_confirmation(self, message: Answer, now: float) -> list[Effect]:
        """The answer to that question."""
        self.resume_points.apply_confirmation(message.request, message.content)
        if self.is_confirmed or message.error[0]:
            # A node of an earlier version does not know the question: it can not confirm.
            return self.end_session()
        # The subscription may be on its way from another node.
        self._confirm_at = now + CONFIRMATION_INTERVAL
        return []

    # ------------------------------------------------------------------ time

    def next_timeout(self) -> float | None:
        """When `handle_timeout` is wanted."""
        times = (self._acknowledge_at, self._save_at, self._confirm_at)
        return min([time for time in times if time is not None], default=None)

    def handle_timeout(self, now: float) -> list[Effect]:
        """Do what is due."""
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
