"""Positions of one client: told to the node while it runs, and confirmed when it closes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from broker.client.effects import Effect, Left, Send
from broker.client.following import Following
from broker.client.leaving import ASK_AGAIN, Leaving
from broker.event.place import Position
from broker.wire import messages
from broker.wire.codec import Message
from broker.wire.messages import Acknowledge, Answer, Goodbye

#: A subscription reports its position after so many processed events, or `ACKNOWLEDGE_AFTER` s.
ACKNOWLEDGE_EVENTS: Final = 1000
ACKNOWLEDGE_AFTER: Final = 0.5


class Acknowledging:
    """Sends positions of durable subscriptions, and ends the session when they are committed."""

    def __init__(
        self,
        subscriptions: Mapping[int, Following],
        left: Mapping[str, Left],
        numbers: Iterator[int],
    ) -> None:
        """`subscriptions` are the client's at any time; `numbers` gives those of questions."""
        self._subscriptions = subscriptions
        self._numbers = numbers
        self.leaving = Leaving(left)
        self.connected = False
        self.closing = False
        self.finished = False
        """The session is over for this end: nothing is left to say, or it gave up."""
        self._acknowledge_at: float | None = None
        self._keep_at: float | None = None
        self._confirm_at: float | None = None

    def processed(self, following: Following, position: Position, events: int, now: float) -> None:
        """The user has processed `events` events of a subscription, up to `position`."""
        if position.marks:
            following.processed = following.processed.merged(position)
        if following.wish.durable:
            if position.marks:
                self.leaving.processed(following)
            following.since_acknowledged += events
            if self._acknowledge_at is None:
                self._acknowledge_at = now + ACKNOWLEDGE_AFTER
            if self._keep_at is None:
                self._keep_at = now + ACKNOWLEDGE_AFTER

    def acknowledge(self) -> list[Effect]:
        """Tell the positions that moved; with the next connection if there is none."""
        self._acknowledge_at = None
        if not self.connected:
            return []
        rows = []
        for subscription in self._subscriptions.values():
            subscription.since_acknowledged = 0
            if subscription.wish.durable and subscription.processed != subscription.acknowledged:
                subscription.acknowledged = subscription.processed
                rows.append((subscription.number, subscription.processed.to_wire()))
        return [_send(Acknowledge(tuple(rows)))] if rows else []

    def keep(self) -> list[Effect]:
        """Say what the next process of this client is to know of durable subscriptions."""
        self._keep_at = None
        for following in self._subscriptions.values():
            self.leaving.leave(following)
        return self.leaving.keep() if self.leaving else []

    # ------------------------------------------------------------------ the end

    def goodbye(self) -> list[Effect]:
        """End the session in good order."""
        if not self.connected:
            return []
        self.finished = self.closing
        return [*self.acknowledge(), _send(Goodbye())]

    def close(self) -> list[Effect]:
        """Begin to close: the session ends when the node has committed the positions.

        `finished` tells whether that is so far, and `is_settled` whether it came about.
        """
        self.closing = True
        if self.is_settled:
            self.finished = not self.connected
            return self.goodbye()
        return self.confirm()

    def give_up(self) -> None:
        """Wait for the node no longer."""
        self.closing = self.finished = True

    @property
    def is_settled(self) -> bool:
        """Whether the node has confirmed each position that moved in this process."""
        return not self.leaving.unconfirmed

    def confirm(self) -> list[Effect]:
        """While it closes: ask whether the node has committed the positions."""
        if not self.closing or self.finished or not self.connected:
            return []
        return [*self.acknowledge(), _send(self.leaving.ask(next(self._numbers)))]

    def confirmed(self, message: Answer, now: float) -> list[Effect]:
        """The answer to that question."""
        self.leaving.answered(message.request, message.content)
        if self.is_settled or message.error[0]:
            # A node of an earlier version does not know the question: it can not confirm.
            return self.goodbye()
        # The subscription may be on its way from another node.
        self._confirm_at = now + ASK_AGAIN
        return []

    # ------------------------------------------------------------------ time

    def next_timeout(self) -> float | None:
        """When `handle_timeout` is wanted."""
        times = (self._acknowledge_at, self._keep_at, self._confirm_at)
        return min([time for time in times if time is not None], default=None)

    def handle_timeout(self, now: float) -> list[Effect]:
        """Do what is due."""
        effects: list[Effect] = []
        if self._acknowledge_at is not None and now >= self._acknowledge_at:
            effects += self.acknowledge()
        if self._keep_at is not None and now >= self._keep_at:
            effects += self.keep()
        if self._confirm_at is not None and now >= self._confirm_at:
            self._confirm_at = None
            effects += self.confirm()
        return effects


def _send(message: Message) -> Send:
    return Send(messages.encode(message))
