"""The client's session, sans-I/O: outbox, subscriptions with their positions, questions.

Messages of the node and wishes of the user go in; effects come out. The same core runs under
Twisted and asyncio, and in virtual time in tests.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, get_args

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
)
from broker.client.outbox import NO_LIMITS, Limits, Outbox
from broker.client.pending_requests import PendingRequests
from broker.client.position_reporter import ACKNOWLEDGE_EVENTS, PositionReporter
from broker.client.received import ReceivedEvent, TypeChanged
from broker.client.subscription_request import SubscriptionRequest
from broker.client.subscription_state import SubscriptionState
from broker.errors import ProtocolError, UnknownSubscription, from_wire
from broker.event.event_id import EventId
from broker.event.place import Place, Position
from broker.wire import messages
from broker.wire.batches import Delivered, decode_delivery
from broker.wire.messages import (
    DELIVER,
    Acknowledge,
    Answer,
    Ask,
    Credit,
    Ended,
    Flowing,
    Message,
    NotPublished,
    Progress,
    Published,
    Refuse,
    Subscribed,
    Unsubscribe,
)

_AboutSubscription: TypeAlias = Subscribed | Flowing | Ended | messages.Gap | messages.TypeChanged
_ABOUT_SUBSCRIPTIONS = get_args(_AboutSubscription)


class ClientCore:
    """One client's conversation with the network, through any number of sessions."""

    def __init__(
        self,
        outbox: Outbox,
        window_bytes: int,
        resume_points: Mapping[str, ResumePoint] | None = None,
    ) -> None:
        """`window_bytes` bounds deliveries that have arrived and that no user has taken yet; `resume_points`
        is where the last process of this client resume_points its durable subscriptions."""
        self.outbox = outbox
        self._max_held_bytes = window_bytes // 2
        self._credit = DeliveryCredit(window_bytes)
        self._node_address = ""
        """Address of the node of the newest session."""
        self._subscriptions: dict[int, SubscriptionState] = {}
        self._ending: dict[int, tuple[SubscriptionState, bool]] = {}
        """Unsubscribed, but the node has not said so yet; and whether it shall forget them."""
        self._protocol_version = 1
        """Protocol version of the newest session."""
        self._numbers = itertools.count(1)
        self.positions = PositionReporter(self._subscriptions, resume_points or {}, self._numbers)
        self._requests = PendingRequests()
        self._queued: list[Message] = []
        """Wishes while there was no connection: a session that is resumed does not know them."""
        self._previous_place: Place | None = None
        self._retry_at: float | None = None
        self._is_publishing_blocked = False
        self._duplicates_dropped = 0
        """Of subscriptions that are over."""

    # ------------------------------------------------------------------ the user's wishes

    def publish(self, document: bytes, event_id: EventId, waiter: Any) -> None:
        """Put an event into the outbox; `flush` sends it. Raises `Overloaded`."""
        self.outbox.add(document, event_id, waiter)

    def flush(self) -> list[Effect]:
        """Send the oldest batch that waits, if there is a session: again as long as it sends."""
        if not self.is_connected or self._retry_at is not None:
            return []
        message = self.outbox.next_unsent()
        return [] if message is None else [Send(message)]

    def subscribe(self, request: SubscriptionRequest) -> tuple[int, list[Effect]]:
        """Ask for a subscription; what becomes of it arrives under the returned number."""
        number = next(self._numbers)
        subscription = SubscriptionState(
            number,
            request,
            self._max_held_bytes,
            self.positions.resume_points.find(request.durable),
        )
        self._subscriptions[number] = subscription
        return number, self._send_or_queue(subscription.begin_session())

    def unsubscribe(self, number: int, *, forget: bool = False) -> list[Effect]:
        """End a subscription; with `forget` nothing of a durable one stays at the node."""
        if number not in self._subscriptions:
            return []
        subscription = self._subscriptions.pop(number)
        self._duplicates_dropped += subscription.duplicates_dropped
        self._ending[number] = (subscription, forget)
        effects = self._drop_held(subscription)
        name = subscription.request.durable
        if name and subscription.processed_position != subscription.acknowledged_position:
            effects += self._send_or_queue(
                Acknowledge([(number, subscription.processed_position.to_wire())])
            )
        if name:
            leaving = self.positions.resume_points
            leaving.update(subscription)
            if forget:
                leaving.remove(name)
            effects += leaving.save()
        effects += self._send_or_queue(Unsubscribe(number, forget))
        if not self.is_connected:
            effects.append(
                ItemArrived(number, SubscriptionEnded(None, subscription.processed_position))
            )
        return effects

    def ask(
        self, what: str, arguments: Mapping[str, str], document: bytes = b""
    ) -> tuple[int, list[Effect]]:
        """Ask the node something, maybe about an event; the answer comes under the number. Raises
        `TooLarge` or `BadName` for a question that no message can hold."""
        ask = Ask(next(self._numbers), what, arguments, document)
        self._requests.add(ask)
        return ask.request, self._send_or_queue(ask)

    def mark_processed(self, number: int, item: Item, now: float) -> list[Effect]:
        """The user has processed something that arrived: the position moves on."""
        effects = self.discard(item)
        subscription = self._subscriptions.get(number)
        if subscription is None:
            return effects
        if isinstance(item, EventBatch):
            self.positions.record_processed(subscription, item.position, len(item.events), now)
        elif isinstance(item, PositionMoved):
            self.positions.record_processed(subscription, item.position, 0, now)
        if subscription.events_since_acknowledged >= ACKNOWLEDGE_EVENTS:
            effects += self.positions.acknowledge_positions()
        return effects

    def discard(self, item: Item) -> list[Effect]:
        """The user does not want this any more: no position moves, but its room is free again."""
        if not isinstance(item, EventBatch):
            return []
        self._release_delivery(item)
        return self._grant_credit()

    def _release_delivery(self, portion: EventBatch) -> None:
        portion.delivery.remaining -= 1
        if portion.delivery.remaining == 0:
            self._credit.release_delivery(portion.delivery.size)

    def _grant_credit(self) -> list[Effect]:
        limit = self._credit.next_limit() if self.is_connected else None
        return [] if limit is None else [_send(Credit(limit))]

    def position_of(self, number: int) -> Position:
        """How far the user has processed a subscription, nothing missing."""
        subscription = self._subscriptions.get(number)
        return Position() if subscription is None else subscription.processed_position

    @property
    def duplicates_dropped(self) -> int:
        """How many events came again for any subscription, and were dropped."""
        now = sum(each.duplicates_dropped for each in self._subscriptions.values())
        return self._duplicates_dropped + now

    def duplicates_of(self, number: int) -> int:
        """How many events came again for a subscription, and were dropped."""
        subscription = self._subscriptions.get(number)
        return 0 if subscription is None else subscription.duplicates_dropped

    def _drop_held(self, subscription: SubscriptionState) -> list[Effect]:
        dropped = subscription.drop_held()
        return [effect for portion in dropped for effect in self.discard(portion)]

    def _send_or_queue(self, message: Message) -> list[Effect]:
        if self.is_connected:
            return [self._send_versioned(message)]
        self._queued.append(message)
        return []

    # ------------------------------------------------------------------ the connection

    def session_up(
        self, resumed: bool, node: str = "", limits: Limits = NO_LIMITS, version: int = 1
    ) -> list[Effect]:
        """Connected, to the node with this address. If it does not remember the session,
        everything open is said again. What exceeds `limits`, of an event and a frame in bytes,
        fails. `version` is the session's protocol version."""
        self.positions.is_connected = True
        self._protocol_version = version
        self._node_address = node
        unsaid, self._queued = self._queued, []
        if resumed:
            said = [
                *map(self._send_versioned, unsaid),
                *self.positions.acknowledge_positions(),
                *self._grant_credit(),
            ]
            return [*said, *self.positions.request_confirmation()]
        self._previous_place = None
        self._retry_at = None
        self.outbox.requeue_all()
        refused = self.outbox.apply_limits(*limits)
        effects: list[Effect] = [PublicationSettled(waiter, error) for waiter, error in refused]
        effects += self._requests.refuse_larger(limits[0])
        for subscription in self._subscriptions.values():
            for portion in subscription.drop_held():
                self._release_delivery(portion)
        effects.append(_send(Credit(self._credit.begin_session())))
        for subscription in self._subscriptions.values():
            subscription.acknowledged_position = Position()
            effects.append(self._send_versioned(subscription.begin_session()))
        for number, (subscription, forget) in list(self._ending.items()):
            name = subscription.request.durable
            owed = name in self.positions.resume_points.unconfirmed
            if name and (forget or owed):
                # Only a session that has it can have it forgotten, or move its position.
                effects.append(self._send_versioned(subscription.begin_session()))
                if owed:
                    moved = [(number, subscription.processed_position.to_wire())]
                    effects.append(_send(Acknowledge(moved)))
                effects.append(_send(Unsubscribe(number, forget)))
            else:
                del self._ending[number]
                effects.append(
                    ItemArrived(number, SubscriptionEnded(None, subscription.processed_position))
                )
        effects += [*map(_send, self._requests.all_open()), *self.positions.acknowledge_positions()]
        return [*effects, *self.positions.request_confirmation()]

    def session_down(self) -> None:
        """No connection at the moment."""
        self.positions.is_connected = False

    @property
    def is_connected(self) -> bool:
        """Whether there is a session that has a connection."""
        return self.positions.is_connected

    def next_timeout(self) -> float | None:
        """When `handle_timeout` is wanted."""
        times = (self._retry_at, self.positions.next_timeout())
        return min([time for time in times if time is not None], default=None)

    def handle_timeout(self, now: float) -> list[Effect]:
        """Acknowledge what is due; let batches that were sent back go out again (`flush`)."""
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
        return self.positions.handle_timeout(now)

    # ------------------------------------------------------------------ messages of the node

    def receive_message(self, data: bytes, now: float) -> list[Effect]:
        """One message. Raises `ProtocolError` when the node says what it may not say now."""
        if data[:1] == bytes([DELIVER]):
            return self._receive_delivery(data)
        message = messages.decode(data)
        if isinstance(message, Refuse):
            return [MessagesConsumed(1), SessionEnded(from_wire(message.error))]
        return [*self._receive_control(message, now), MessagesConsumed(1)]

    def _receive_control(self, message: Message, now: float) -> list[Effect]:
        if isinstance(message, Published):
            settled = self.outbox.settle_batch(message)
            effects: list[Effect] = [
                PublicationSettled(waiter, result) for waiter, result in settled
            ]
            if self._retry_at is None and self.outbox.can_resend:
                self._retry_at = now
            if self._is_publishing_blocked:
                self._is_publishing_blocked = False
                effects.append(PublishingBlocked(None))
            return effects
        if isinstance(message, NotPublished):
            self.outbox.requeue_from(message.batch)
            if self._retry_at is None:
                self._retry_at = now + message.retry_ms / 1000
            if self._is_publishing_blocked:
                return []
            self._is_publishing_blocked = True
            return [PublishingBlocked(from_wire(message.error))]
        if isinstance(message, Answer) and self.positions.resume_points.is_confirmation(
            message.request
        ):
            return self.positions.receive_confirmation(message, now)
        if isinstance(message, Answer):
            self._requests.remove(message.request)
            error = from_wire(message.error) if message.error[0] else None
            return [RequestAnswered(message.request, message.content, error)]
        if isinstance(message, Progress):
            return self._receive_progress(message)
        if isinstance(message, Ended) and message.number in self._ending:
            subscription, _ = self._ending.pop(message.number)
            return [
                ItemArrived(
                    message.number, SubscriptionEnded(None, subscription.processed_position)
                )
            ]
        if isinstance(message, _ABOUT_SUBSCRIPTIONS):
            known = self._subscriptions.get(message.number)
            return [] if known is None else self._receive_for_subscription(known, message)
        raise ProtocolError(f"{type(message).__name__} is not for a client")

    def _receive_progress(self, message: Progress) -> list[Effect]:
        effects: list[Effect] = []
        times = dict(message.times)
        moved = {**dict.fromkeys(times, ()), **dict(message.positions)}
        for number, position in moved.items():
            subscription = self._subscriptions.get(number)
            if subscription is not None:
                items = subscription.receive_progress(
                    Position.from_wire(position), times.get(number, ())
                )
                effects += _item_effects(number, items)
        return effects

    def _send_versioned(self, message: Message) -> Send:
        return Send(messages.encode(message, self._protocol_version))

    def _receive_for_subscription(
        self, subscription: SubscriptionState, message: _AboutSubscription
    ) -> list[Effect]:
        number = subscription.number
        if isinstance(message, Subscribed):
            return _item_effects(number, subscription.receive_subscribed(message))
        if isinstance(message, Flowing):
            return _item_effects(number, subscription.receive_flowing(message, self._node_address))
        if isinstance(message, Ended):
            going_on = subscription.continue_after_recount(message)
            if going_on is not None:
                return [
                    *_item_effects(number, going_on),
                    *self._send_or_queue(subscription.begin_session()),
                ]
            del self._subscriptions[number]
            self._duplicates_dropped += subscription.duplicates_dropped
            ended = _item_effects(number, subscription.receive_ended(message))
            if message.error[0] == UnknownSubscription.code and subscription.request.durable:
                # It was deleted: whoever takes the name up again begins anew.
                self.positions.resume_points.remove(subscription.request.durable)
                ended += self.positions.resume_points.save()
            return ended
        if isinstance(message, messages.TypeChanged):
            return [ItemArrived(number, TypeChanged.from_message(message))]
        return _item_effects(number, subscription.receive_gap(message))

    def _receive_delivery(self, data: bytes) -> list[Effect]:
        delivery = decode_delivery(data)
        if delivery.previous != self._previous_place:
            raise ProtocolError(
                f"the node says that {delivery.previous} came before, but it was {self._previous_place}"
            )
        shares: dict[int, list[ReceivedEvent]] = {}
        for event in delivery.events:
            received = _to_event(event)
            for number in event.subscriptions:
                shares.setdefault(number, []).append(received)
        if delivery.events:
            self._previous_place = delivery.events[-1].place
        known = {n: events for n, events in shares.items() if n in self._subscriptions}
        self._credit.add_delivery(len(data))
        if not known:
            self._credit.release_delivery(len(data))
            return [MessagesConsumed(1), *self._grant_credit()]
        share = SharedDelivery(len(known), len(data))
        effects: list[Effect] = [MessagesConsumed(1)]
        for number, events in known.items():
            effects += _item_effects(
                number, self._subscriptions[number].receive_events(events, share)
            )
        return effects


def _item_effects(number: int, items: Iterable[Item]) -> list[Effect]:
    return [ItemArrived(number, item) for item in items]


def _send(message: Message) -> Send:
    return Send(messages.encode(message))


def _to_event(event: Delivered) -> ReceivedEvent:
    return ReceivedEvent(event.place, event.header, event.liveness, event.document)
