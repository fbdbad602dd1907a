"""The client's session, sans-I/O: outbox, subscriptions with their positions, requests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from broker.client.delivery_credit import DeliveryCredit
from broker.client.effects import (
    Effect,
    EventBatch,
    Item,
    ItemArrived,
    MessagesConsumed,
    PositionMoved,
    PublicationSettled,
    PublishingBlocked,
    RequestAnswered,
    ResumePoint,
    Send,
    SessionEnded,
    SharedDelivery,
    SubscriptionEnded,
    item_effects,
)
from broker.client.mesh_feeds import MeshFeeds
from broker.client.outbox import NO_LIMITS, Limits, Outbox
from broker.client.pending_requests import PendingRequests
from broker.client.position_reporter import ACKNOWLEDGE_EVENTS, PositionReporter
from broker.client.received import ReceivedEvent
from broker.client.subscription_request import SubscriptionRequest
from broker.client.subscription_state import (
    ABOUT_SUBSCRIPTIONS,
    AboutSubscription,
    SubscriptionState,
)
from broker.errors import ProtocolError, UnknownSubscription, VersionMismatch, from_wire
from broker.event.event_id import EventId
from broker.event.place import Place, Position
from broker.wire import messages
from broker.wire.claim import Claim
from broker.wire.codec import Message
from broker.wire.event_batch import decode_delivery
from broker.wire.messages import (
    DELIVER,
    Acknowledge,
    Answer,
    Ask,
    Credit,
    Ended,
    NotPublished,
    Progress,
    Published,
    Refuse,
    Unsubscribe,
)


class ClientCore:
    """State of one client through any number of sessions."""

    def __init__(
        self,
        outbox: Outbox,
        window_bytes: int,
        resume_points: Mapping[str, ResumePoint] | None = None,
    ) -> None:
        """`window_bytes` bounds unprocessed deliveries."""
        self.outbox = outbox
        self._max_held_bytes = window_bytes // 2
        self._credit = DeliveryCredit(window_bytes)
        self._node_address = ""
        self.make_claim: Callable[[str, str], Claim | None] = lambda name, node: None
        """Returns the proof for a durable subscription at the node with an address."""
        self._subscriptions: dict[int, SubscriptionState] = {}
        self._ending: dict[int, tuple[SubscriptionState, bool]] = {}
        """Not confirmed by the node; True if it deletes the durable state."""
        self._protocol_version = 1
        self._numbers = itertools.count(1)
        self.positions = PositionReporter(self._subscriptions, resume_points or {}, self._numbers)
        self.requests = PendingRequests()
        self.meshes = MeshFeeds(
            *(self._subscriptions, self._credit, self._max_held_bytes, self._can_hold),
            self._send_or_queue,
        )
        self._queued: list[Message] = []
        """Messages of the time without a connection, unknown to a resumed session."""
        self._previous_place: Place | None = None
        self._retry_at: float | None = None
        self._is_blocked = False
        self._duplicates_dropped = 0
        """Of ended subscriptions."""

    # ------------------------------------------------------------------ calls of the user

    def publish(self, document: bytes, event_id: EventId, waiter: Any, time: int | None) -> None:
        self.outbox.add(document, event_id, waiter, time)

    def flush(self) -> list[Effect]:
        """Send the oldest unsent batch. Call it until it returns nothing."""
        if not self.is_connected or self._retry_at is not None:
            return []
        message = self.outbox.next_unsent(self._protocol_version)
        return [] if message is None else [Send(message)]

    def subscribe(self, request: SubscriptionRequest) -> tuple[int, list[Effect]]:
        """Return the number under which the items arrive."""
        number = next(self._numbers)
        state = SubscriptionState(
            number,
            request,
            self._max_held_bytes,
            self.positions.resume_points.find(request.durable),
        )
        self._subscriptions[number] = state
        return number, self._send_or_queue(state.begin_session())

    def unsubscribe(self, number: int, *, forget: bool = False) -> list[Effect]:
        """With `forget` the node deletes the durable state."""
        if number not in self._subscriptions:
            return []
        state = self._subscriptions.pop(number)
        self._duplicates_dropped += state.duplicates_dropped
        self._ending[number] = (state, forget)
        effects = self._drop_held(state)
        name = state.request.durable
        if name and state.processed_position != state.acknowledged_position:
            effects += self._send_or_queue(
                Acknowledge(((number, state.processed_position.to_wire()),))
            )
        if name:
            points = self.positions.resume_points
            points.update(state)
            if forget:
                points.remove(name)
            effects += points.save()
        effects += self._send_or_queue(Unsubscribe(number, forget))
        if not self.is_connected:
            effects.append(ItemArrived(number, SubscriptionEnded(None, state.processed_position)))
        return effects

    def ask(
        self, what: str, arguments: Mapping[str, str], document: bytes = b""
    ) -> tuple[int, list[Effect]]:
        """Return the request's number. Raises `TooLarge` or `BadName`."""
        ask = Ask(next(self._numbers), what, arguments, document)
        self.requests.add(ask)
        return ask.request, self._send_or_queue(ask)

    def mark_processed(self, number: int, item: Item, now: float) -> list[Effect]:
        effects = self.discard(item)
        state = self._subscriptions.get(number)
        if state is None:
            return effects
        if isinstance(item, EventBatch):
            self.positions.record_processed(state, item.position, len(item.events), now)
        elif isinstance(item, PositionMoved):
            self.positions.record_processed(state, item.position, 0, now)
        if state.events_since_acknowledged >= ACKNOWLEDGE_EVENTS:
            effects += self.positions.acknowledge_positions()
        return effects

    def discard(self, item: Item) -> list[Effect]:
        if not isinstance(item, EventBatch):
            return []
        self._release_delivery(item)
        return self._grant_credit()

    def _release_delivery(self, batch: EventBatch) -> None:
        batch.delivery.remaining -= 1
        if batch.delivery.remaining == 0:
            self._credit.release_delivery(batch.delivery.size)

    def _grant_credit(self) -> list[Effect]:
        limit = self._credit.next_limit() if self.is_connected else None
        return [] if limit is None else [_send(Credit(limit))]

    def position_of(self, number: int) -> Position:
        state = self._subscriptions.get(number)
        return Position() if state is None else state.processed_position

    @property
    def duplicates_dropped(self) -> int:
        now = sum(each.duplicates_dropped for each in self._subscriptions.values())
        return self._duplicates_dropped + now

    def duplicates_of(self, number: int) -> int:
        state = self._subscriptions.get(number)
        return 0 if state is None else state.duplicates_dropped

    def _drop_held(self, state: SubscriptionState) -> list[Effect]:
        dropped = state.drop_held()
        return [effect for batch in dropped for effect in self.discard(batch)]

    def _can_hold(self) -> bool:
        return self.is_connected and self._protocol_version >= messages.HOLD_VERSION

    def _send_or_queue(self, message: Message) -> list[Effect]:
        if self.is_connected:
            return [self._send_versioned(message)]
        self._queued.append(message)
        return []

    # ------------------------------------------------------------------ the connection

    def session_up(
        self, resumed: bool, node: str = "", limits: Limits = NO_LIMITS, version: int = 1
    ) -> list[Effect]:
        """Begin or resume a session with the node at address `node`.

        Unless `resumed`, everything open is sent again. Publications and requests that exceed
        `limits` (bytes of an event, of a frame) fail.
        """
        self.positions.is_connected = True
        self._protocol_version = version
        self._node_address = node
        queued, self._queued = self._queued, []
        if resumed:
            sends = [
                *map(self._send_versioned, queued),
                *self.positions.acknowledge_positions(),
                *self._grant_credit(),
            ]
            return [*sends, *self.positions.request_confirmation()]
        self._previous_place = None
        self._retry_at = None
        self.outbox.requeue_all()
        refused = self.outbox.apply_limits(*limits)
        effects: list[Effect] = [PublicationSettled(waiter, error) for waiter, error in refused]
        effects += self.requests.refuse_larger(limits[0])
        for state in self._subscriptions.values():
            for batch in state.drop_held():
                self._release_delivery(batch)
        effects.append(_send(Credit(self._credit.begin_session())))
        for state in list(self._subscriptions.values()):
            state.acknowledged_position = Position()
            effects.append(self._send_versioned(state.begin_session()))
        for number, (state, forget) in list(self._ending.items()):
            name = state.request.durable
            is_unconfirmed = name in self.positions.resume_points.unconfirmed
            if name and (forget or is_unconfirmed):
                # The node deletes or moves a durable subscription only in a session that has it.
                effects.append(self._send_versioned(state.begin_session()))
                if is_unconfirmed:
                    moved = ((number, state.processed_position.to_wire()),)
                    effects.append(_send(Acknowledge(moved)))
                effects.append(_send(Unsubscribe(number, forget)))
            else:
                del self._ending[number]
                effects.append(
                    ItemArrived(number, SubscriptionEnded(None, state.processed_position))
                )
        effects += [*map(_send, self.requests.all_open()), *self.positions.acknowledge_positions()]
        return [*effects, *self.positions.request_confirmation()]

    def session_down(self) -> None:
        self.positions.is_connected = False

    @property
    def is_connected(self) -> bool:
        return self.positions.is_connected

    def next_timeout(self) -> float | None:
        times = (self._retry_at, self.positions.next_timeout(), self.meshes.next_timeout())
        return min([time for time in times if time is not None], default=None)

    def handle_timeout(self, now: float) -> list[Effect]:
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
        return [*self.positions.handle_timeout(now), *self.meshes.advance(now)]

    # ------------------------------------------------------------------ messages of the node

    def receive_message(self, data: bytes, now: float) -> list[Effect]:
        """Raises `ProtocolError` for a message that is not allowed now."""
        if data[:1] == bytes([DELIVER]):
            return [*self._receive_delivery(data), *self.meshes.advance(now)]
        message = messages.decode(data)
        if isinstance(message, Refuse):
            return [MessagesConsumed(1), SessionEnded(from_wire(message.error))]
        effects = self._receive_control(message, now)
        return [*effects, *self.meshes.advance(now), MessagesConsumed(1)]

    def _receive_control(self, message: Message, now: float) -> list[Effect]:
        if isinstance(message, Published):
            settled = self.outbox.settle_batch(message)
            effects: list[Effect] = [
                PublicationSettled(waiter, result) for waiter, result in settled
            ]
            if self._retry_at is None and self.outbox.can_resend:
                self._retry_at = now
            if self._is_blocked:
                self._is_blocked = False
                effects.append(PublishingBlocked(None))
            return effects
        if isinstance(message, NotPublished):
            self.outbox.requeue_from(message.batch)
            if self._retry_at is None:
                self._retry_at = now + message.retry_ms / 1000
            if self._is_blocked:
                return []
            self._is_blocked = True
            return [PublishingBlocked(from_wire(message.error))]
        if isinstance(message, Answer) and self.positions.resume_points.is_confirmation(
            message.request
        ):
            return self.positions.receive_confirmation(message, now)
        if isinstance(message, Answer):
            self.requests.remove(message.request)
            error = from_wire(message.error) if message.error[0] else None
            return [RequestAnswered(message.request, message.content, error)]
        if isinstance(message, Progress):
            return self._receive_progress(message)
        if isinstance(message, Ended) and message.number in self._ending:
            state, _ = self._ending.pop(message.number)
            return [ItemArrived(message.number, SubscriptionEnded(None, state.processed_position))]
        if isinstance(message, ABOUT_SUBSCRIPTIONS):
            known = self._subscriptions.get(message.number)
            return [] if known is None else self._receive_for_subscription(known, message)
        raise ProtocolError(f"{type(message).__name__} is not a message for a client")

    def _receive_progress(self, message: Progress) -> list[Effect]:
        effects: list[Effect] = []
        times = dict(message.times)
        moved = {**dict.fromkeys(times, ()), **dict(message.positions)}
        for number, position in moved.items():
            state = self._subscriptions.get(number)
            if state is not None:
                items = state.receive_progress(Position.from_wire(position), times.get(number, ()))
                effects += item_effects(number, items)
        return effects

    def _send_versioned(self, message: Message) -> Effect:
        """End a subscription if the node is too old for its queue policy."""
        if isinstance(message, messages.Subscribe) and message.durable:
            claim = self.make_claim(message.durable, self._node_address)
            message = replace(message, claim=claim)
        try:
            return Send(messages.encode(message, self._protocol_version))
        except VersionMismatch as error:
            assert isinstance(message, messages.Subscribe)
            if (state := self._subscriptions.pop(message.number, None)) is None:
                # It is ending, and gets no events.
                return self._send_versioned(replace(message, queue=""))
            self._duplicates_dropped += state.duplicates_dropped
            return ItemArrived(message.number, SubscriptionEnded(error, state.processed_position))

    def _receive_for_subscription(
        self, state: SubscriptionState, message: AboutSubscription
    ) -> list[Effect]:
        number = state.number
        if isinstance(message, Ended):
            items = state.continue_after_end(message)
            if items is not None:
                return [
                    *item_effects(number, items),
                    *self._send_or_queue(state.begin_session()),
                ]
            del self._subscriptions[number]
            self._duplicates_dropped += state.duplicates_dropped
            ended = item_effects(number, state.receive_ended(message))
            if message.error[0] == UnknownSubscription.code and state.request.durable:
                # A new subscription of that name begins anew.
                self.positions.resume_points.remove(state.request.durable)
                ended += self.positions.resume_points.save()
            return ended
        return item_effects(number, state.receive_message(message, self._node_address))

    def _receive_delivery(self, data: bytes) -> list[Effect]:
        delivery = decode_delivery(data)
        if delivery.previous != self._previous_place:
            raise ProtocolError(
                f"the delivery follows {delivery.previous}, but the last was {self._previous_place}"
            )
        by_number: dict[int, list[ReceivedEvent]] = {}
        for event in delivery.events:
            received = ReceivedEvent.from_delivered(event)
            for number in event.subscriptions:
                by_number.setdefault(number, []).append(received)
        if delivery.events:
            self._previous_place = delivery.events[-1].place
        known = {n: events for n, events in by_number.items() if n in self._subscriptions}
        self._credit.add_delivery(len(data))
        if not known:
            self._credit.release_delivery(len(data))
            return [MessagesConsumed(1), *self._grant_credit()]
        shared = SharedDelivery(len(known), len(data))
        effects: list[Effect] = [MessagesConsumed(1)]
        for number, events in known.items():
            effects += item_effects(
                number, self._subscriptions[number].receive_events(events, shared)
            )
        return effects


def _send(message: Message) -> Send:
    return Send(messages.encode(message))
