"""The client's session, sans-I/O: outbox, subscriptions with their positions, questions.

Messages of the node and wishes of the user go in; effects come out. The same core runs under
Twisted and asyncio, and in virtual time in tests.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, TypeAlias, get_args

import attrs

from broker.client.delivery_room import DeliveryRoom
from broker.client.effects import (
    Accepted,
    Answered,
    Arrived,
    Consumed,
    Effect,
    HeldUp,
    Item,
    Moved,
    Over,
    Portion,
    Send,
    SessionOver,
    Settled,
    Share,
)
from broker.client.outbox import Outbox
from broker.client.received import Flow, Gap, ReceivedEvent, Start, TypeChanged
from broker.errors import ProtocolError, from_wire
from broker.event.identity import EventId
from broker.event.place import Place, Position
from broker.session import messages
from broker.session.batches import Delivered, decode_delivery
from broker.session.messages import (
    DELIVER,
    Acknowledge,
    Answer,
    Ask,
    Credit,
    Ended,
    Flowing,
    Goodbye,
    Message,
    NotPublished,
    Progress,
    Published,
    Refuse,
    Subscribe,
    Subscribed,
    Unsubscribe,
)

#: A subscription reports its position after so many processed events, or `ACKNOWLEDGE_AFTER` s.
ACKNOWLEDGE_EVENTS = 1000
ACKNOWLEDGE_AFTER = 0.5

_AboutSubscription: TypeAlias = Subscribed | Flowing | Ended | messages.Gap | messages.TypeChanged
_ABOUT_SUBSCRIPTIONS = get_args(_AboutSubscription)


@attrs.define(eq=False)
class _Subscription:
    number: int
    pattern: str
    query: str
    namespaces: Mapping[str, str]
    durable: str
    start: Start
    received: Position = Position()
    """What has arrived here: where to go on after the node lost the session. Empty as long as
    only the start says that."""
    processed: Position = Position()
    acknowledged: Position = Position()
    since_acknowledged: int = 0
    begun: bool = False
    stored: bool = False
    """The node had a position of it: it begins there, and not at the cut."""


class ClientCore:
    """One client's conversation with the network, through any number of sessions."""

    def __init__(self, outbox: Outbox, window_bytes: int) -> None:
        """`window_bytes` bounds deliveries that have arrived and that no user has taken yet."""
        self.outbox = outbox
        self._room = DeliveryRoom(window_bytes)
        self.connected = False
        self._subscriptions: dict[int, _Subscription] = {}
        self._ending: dict[int, tuple[_Subscription, bool]] = {}
        """Unsubscribed, but the node has not said so yet; and whether it shall forget them."""
        self._numbers = itertools.count(1)
        self._asked: dict[int, Ask] = {}
        self._unsaid: list[Message] = []
        """Wishes while there was no connection: a session that is resumed does not know them."""
        self._previous: Place | None = None
        self._retry_at: float | None = None
        self._held_up = False
        self._acknowledge_at: float | None = None

    # ------------------------------------------------------------------ the user's wishes

    def publish(self, document: bytes, event_id: EventId, waiter: Any) -> None:
        """Put an event into the outbox; `flush` sends it. Raises `Overloaded`."""
        self.outbox.add(document, event_id, waiter)

    def flush(self) -> list[Effect]:
        """Send the oldest batch that waits, if there is a session: again as long as it sends."""
        if not self.connected or self._retry_at is not None:
            return []
        message = self.outbox.next_unsent()
        return [] if message is None else [Send(message)]

    def subscribe(
        self,
        query: str,
        pattern: str,
        *,
        namespaces: Mapping[str, str],
        durable: str,
        start: Start,
    ) -> tuple[int, list[Effect]]:
        """Ask for a subscription; what becomes of it arrives under the returned number."""
        number = next(self._numbers)
        subscription = _Subscription(number, pattern, query, dict(namespaces), durable, start)
        self._subscriptions[number] = subscription
        return number, self._say(self._wish(subscription))

    def unsubscribe(self, number: int, *, forget: bool = False) -> list[Effect]:
        """End a subscription; with `forget` nothing of a durable one stays at the node."""
        if number not in self._subscriptions:
            return []
        subscription = self._subscriptions.pop(number)
        self._ending[number] = (subscription, forget)
        effects: list[Effect] = []
        if subscription.durable and subscription.processed != subscription.acknowledged:
            effects += self._say(Acknowledge([(number, subscription.processed.to_wire())]))
        effects += self._say(Unsubscribe(number, forget))
        if not self.connected:
            effects.append(Arrived(number, Over(None, subscription.processed)))
        return effects

    def ask(
        self, what: str, arguments: Mapping[str, str], document: bytes = b""
    ) -> tuple[int, list[Effect]]:
        """Ask the node something, maybe about an event; the answer comes under the number."""
        request = next(self._numbers)
        self._asked[request] = Ask(request, what, arguments, document)
        return request, self._say(self._asked[request])

    def taken(self, number: int, item: Item, now: float) -> list[Effect]:
        """The user has processed something that arrived: the position moves on."""
        effects = self.discarded(item)
        subscription = self._subscriptions.get(number)
        if isinstance(item, Portion) and subscription is not None:
            places = (event.place for event in item.events)
            self._process(subscription, Position().advanced(places), len(item.events), now)
        elif isinstance(item, Moved) and subscription is not None:
            self._process(subscription, item.position, 0, now)
        if subscription is not None and subscription.since_acknowledged >= ACKNOWLEDGE_EVENTS:
            effects += self._acknowledge()
        return effects

    def discarded(self, item: Item) -> list[Effect]:
        """The user does not want this any more: no position moves, but its room is free again."""
        if not isinstance(item, Portion):
            return []
        item.share.remaining -= 1
        if item.share.remaining == 0:
            self._room.free(item.share.size)
        return self._grant()

    def _grant(self) -> list[Effect]:
        limit = self._room.grant() if self.connected else None
        return [] if limit is None else [_send(Credit(limit))]

    def position(self, number: int) -> Position:
        """How far the user has processed a subscription."""
        subscription = self._subscriptions.get(number)
        return Position() if subscription is None else subscription.processed

    def goodbye(self) -> list[Effect]:
        """End the session in good order."""
        if not self.connected:
            return []
        return [*self._acknowledge(), _send(Goodbye())]

    def _process(
        self, subscription: _Subscription, position: Position, events: int, now: float
    ) -> None:
        subscription.processed = subscription.processed.merged(position)
        subscription.since_acknowledged += events
        if subscription.durable and self._acknowledge_at is None:
            self._acknowledge_at = now + ACKNOWLEDGE_AFTER

    def _acknowledge(self) -> list[Effect]:
        """Tell the positions that moved; with the next connection if there is none."""
        self._acknowledge_at = None
        if not self.connected:
            return []
        rows = []
        for subscription in self._subscriptions.values():
            subscription.since_acknowledged = 0
            if subscription.durable and subscription.processed != subscription.acknowledged:
                subscription.acknowledged = subscription.processed
                rows.append((subscription.number, subscription.processed.to_wire()))
        return [_send(Acknowledge(rows))] if rows else []

    def _say(self, message: Message) -> list[Effect]:
        if self.connected:
            return [_send(message)]
        self._unsaid.append(message)
        return []

    def _wish(self, subscription: _Subscription) -> Subscribe:
        start = subscription.start
        if subscription.begun or (start.kind in ("all", "time") and subscription.received.marks):
            start = Start("position", position=subscription.received)
        return Subscribe(
            number=subscription.number,
            pattern=subscription.pattern,
            query=subscription.query,
            namespaces=subscription.namespaces,
            durable=subscription.durable,
            start=start.kind,
            position=start.position.to_wire(),
            time=start.time_ms,
        )

    # ------------------------------------------------------------------ the connection

    def session_up(self, resumed: bool) -> list[Effect]:
        """Connected. If the node does not remember the session, everything open is said again."""
        self.connected = True
        unsaid, self._unsaid = self._unsaid, []
        if resumed:
            return [*map(_send, unsaid), *self._acknowledge(), *self._grant()]
        self._previous = None
        self._retry_at = None
        self.outbox.send_all_again()
        effects: list[Effect] = [_send(Credit(self._room.begin()))]
        for subscription in self._subscriptions.values():
            subscription.acknowledged = Position()
            effects.append(_send(self._wish(subscription)))
        for number, (subscription, forget) in list(self._ending.items()):
            if forget and subscription.durable:
                # Only who has it in this session can have it forgotten.
                effects += [_send(self._wish(subscription)), _send(Unsubscribe(number, True))]
            else:
                del self._ending[number]
                effects.append(Arrived(number, Over(None, subscription.processed)))
        return [*effects, *map(_send, self._asked.values()), *self._acknowledge()]

    def session_down(self) -> None:
        """No connection at the moment."""
        self.connected = False

    def next_timeout(self) -> float | None:
        """When `handle_timeout` is wanted."""
        times = [t for t in (self._retry_at, self._acknowledge_at) if t is not None]
        return min(times, default=None)

    def handle_timeout(self, now: float) -> list[Effect]:
        """Acknowledge what is due; let batches that were sent back go out again (`flush`)."""
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
        if self._acknowledge_at is not None and now >= self._acknowledge_at:
            return self._acknowledge()
        return []

    # ------------------------------------------------------------------ messages of the node

    def message_received(self, data: bytes, now: float) -> list[Effect]:
        """One message. Raises `ProtocolError` when the node says what it may not say now."""
        if data[:1] == bytes([DELIVER]):
            return self._delivered(data)
        message = messages.decode(data)
        if isinstance(message, Refuse):
            return [Consumed(1), SessionOver(from_wire(message.error))]
        return [*self._control(message, now), Consumed(1)]

    def _control(self, message: Message, now: float) -> list[Effect]:
        if isinstance(message, Published):
            settled = self.outbox.settle(message)
            effects: list[Effect] = [Settled(waiter, result) for waiter, result in settled]
            if self._retry_at is None and self.outbox.may_go_back:
                self._retry_at = now
            if self._held_up:
                self._held_up = False
                effects.append(HeldUp(None))
            return effects
        if isinstance(message, NotPublished):
            self.outbox.sent_back(message.batch)
            if self._retry_at is None:
                self._retry_at = now + message.retry_ms / 1000
            if self._held_up:
                return []
            self._held_up = True
            return [HeldUp(from_wire(message.error))]
        if isinstance(message, Answer):
            self._asked.pop(message.request, None)
            error = from_wire(message.error) if message.error[0] else None
            return [Answered(message.request, message.content, error)]
        if isinstance(message, Progress):
            return [
                effect
                for number, position in message.positions
                for effect in self._progressed(number, Position.from_wire(position))
            ]
        if isinstance(message, Ended) and message.number in self._ending:
            subscription, _ = self._ending.pop(message.number)
            return [Arrived(message.number, Over(None, subscription.processed))]
        if isinstance(message, _ABOUT_SUBSCRIPTIONS):
            known = self._subscriptions.get(message.number)
            return [] if known is None else self._told(known, message)
        raise ProtocolError(f"{type(message).__name__} is not for a client")

    def _progressed(self, number: int, position: Position) -> list[Effect]:
        subscription = self._subscriptions.get(number)
        if subscription is None:
            return []
        subscription.received = subscription.received.merged(position)
        return [Arrived(number, Moved(position))]

    def _told(self, subscription: _Subscription, message: _AboutSubscription) -> list[Effect]:
        number = subscription.number
        start = subscription.start
        if isinstance(message, Subscribed):
            stored = None if message.position is None else Position.from_wire(message.position)
            if stored is not None and start.kind == "stored":
                subscription.stored = True
                self._begin(subscription, stored)
            return [Arrived(number, Accepted(message.warnings, stored))]
        if isinstance(message, Flowing):
            cut = Position.from_wire(message.cut)
            if start.kind == "new" or (start.kind == "stored" and not subscription.stored):
                self._begin(subscription, cut)
            elif start.kind == "position":
                self._begin(subscription, start.position)
            return [Arrived(number, Flow(cut))]
        if isinstance(message, Ended):
            del self._subscriptions[number]
            error = from_wire(message.error) if message.error[0] else None
            return [Arrived(number, Over(error, subscription.processed))]
        if isinstance(message, messages.TypeChanged):
            return [Arrived(number, TypeChanged.of(message))]
        gap = Gap(
            Place(message.origin, *message.first),
            Place(message.origin, *message.last),
            message.count,
            message.reason,
        )
        subscription.received = subscription.received.advanced([gap.last])
        return [Arrived(number, gap), Arrived(number, Moved(Position().advanced([gap.last])))]

    def _begin(self, subscription: _Subscription, position: Position) -> None:
        """The subscription begins after `position`, unless it has begun; some may have come."""
        if not subscription.begun:
            subscription.begun = True
            subscription.received = subscription.received.merged(position)
            subscription.processed = subscription.processed.merged(position)

    def _delivered(self, data: bytes) -> list[Effect]:
        delivery = decode_delivery(data)
        if delivery.previous != self._previous:
            raise ProtocolError(
                f"the node says that {delivery.previous} came before, but it was {self._previous}"
            )
        shares: dict[int, list[ReceivedEvent]] = {}
        for event in delivery.events:
            received = _received(event)
            for number in event.subscriptions:
                shares.setdefault(number, []).append(received)
        if delivery.events:
            self._previous = delivery.events[-1].place
        known = {n: events for n, events in shares.items() if n in self._subscriptions}
        self._room.take(len(data))
        if not known:
            self._room.free(len(data))
            return [Consumed(1), *self._grant()]
        share = Share(len(known), len(data))
        for number, events in known.items():
            subscription = self._subscriptions[number]
            newest = {event.place.origin: event.place for event in events}
            subscription.received = subscription.received.advanced(newest.values())
        arrived = [Arrived(number, Portion(events, share)) for number, events in known.items()]
        return [Consumed(1), *arrived]


def _send(message: Message) -> Send:
    return Send(messages.encode(message))


def _received(event: Delivered) -> ReceivedEvent:
    return ReceivedEvent(event.place, event.header, event.liveness, event.document)
