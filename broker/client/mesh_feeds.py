"""Events of subscriptions that come through meshes, for the client's core (DCP D5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from broker.client.delivery_credit import DeliveryCredit
from broker.client.effects import Effect, EventBatch, ItemArrived, Send
from broker.client.mesh_splice import MeshRange, MeshSplice, SpliceStep
from broker.client.received import ReceivedEvent
from broker.client.subscription_state import SubscriptionState
from broker.event.place import Mark
from broker.wire.codec import Message
from broker.wire.held_flows import Hold
from broker.wire.messages import Unsubscribe, encode


class MeshFeeds:
    def __init__(
        self,
        subscriptions: Mapping[int, SubscriptionState],
        credit: DeliveryCredit,
        max_bytes: int,
        can_hold: Callable[[], bool],
        send_or_queue: Callable[[Message], list[Effect]],
    ) -> None:
        """`max_bytes` bounds the waiting ranges of a subscription. `can_hold` returns whether there
        is a session with a node that can hold flows back."""
        self._subscriptions = subscriptions
        self._credit = credit
        self._max_bytes = max_bytes
        self._can_hold = can_hold
        self._send_or_queue = send_or_queue
        self._numbers: set[int] = set()

    def add(self, number: int, patterns: Iterable[str]) -> MeshSplice:
        """Let a mesh bring flows with these patterns to a subscription."""
        splice = MeshSplice(patterns, self._max_bytes)
        state = self._subscriptions.get(number)
        if state is not None:
            state.splice = splice
            self._numbers.add(number)
        return splice

    def find_splice(self, number: int) -> MeshSplice | None:
        state = self._subscriptions.get(number)
        return None if state is None else state.splice

    def mesh_joined(self, number: int, marks: Mapping[str, Mark], now: float) -> list[Effect]:
        if (splice := self.find_splice(number)) is not None:
            splice.mesh_joined(marks)
        return self.advance(now)

    def mesh_lost(self, number: int, now: float) -> list[Effect]:
        if (splice := self.find_splice(number)) is not None:
            splice.mesh_lost()
        return self.advance(now)

    def receive_range(self, number: int, range_: MeshRange, now: float) -> list[Effect]:
        if (splice := self.find_splice(number)) is not None:
            splice.add_range(range_, has_room=self._credit.has_room)
        return self.advance(now)

    def report_left_out(self, number: int, events: Sequence[ReceivedEvent]) -> list[Effect]:
        """Report gaps for events that parents have left out."""
        state = self._subscriptions.get(number)
        items = [] if state is None else state.receive_left_out(events)
        return [ItemArrived(number, item) for item in items]

    def advance(self, now: float) -> list[Effect]:
        """Return the events that continue the positions, and due steps.

        Call it after each message, and at `next_timeout`.
        """
        effects: list[Effect] = []
        for number in sorted(self._numbers):
            state = self._subscriptions.get(number)
            if state is None:
                self._numbers.discard(number)
            else:
                effects += self._advance_one(state, now)
        return effects

    def _advance_one(self, state: SubscriptionState, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for item in state.receive_contiguous():
            if isinstance(item, EventBatch):
                self._credit.add_other(item.delivery.size)
            effects.append(ItemArrived(state.number, item))
        step = state.take_splice_step(now, can_hold=self._can_hold())
        if step is SpliceStep.HOLD:
            assert state.splice is not None
            patterns = tuple(sorted(state.splice.patterns))
            effects.append(Send(encode(Hold(state.number, patterns))))
        elif step is SpliceStep.RESTART:
            effects += self._send_or_queue(Unsubscribe(state.number, False))
        return effects

    def next_timeout(self) -> float | None:
        found = [self.find_splice(number) for number in self._numbers]
        times = [None if each is None else each.next_timeout() for each in found]
        return min((each for each in times if each is not None), default=None)
