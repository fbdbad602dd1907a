"""The client's session, sans-I/O: outbox, subscriptions with their positions, questions.

Messages of the node and wishes of the user go in; effects come out. The same core runs under
Twisted and asyncio, and in virtual time in tests.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, get_args

from broker.client.acknowledging import ACKNOWLEDGE_EVENTS, Acknowledging
from broker.client.delivery_room import DeliveryRoom
from broker.client.effects import (
    Answered,
    Arrived,
    Consumed,
    Effect,
    HeldUp,
    Item,
    Left,
    Moved,
    Over,
    Portion,
    Send,
    SessionOver,
    Settled,
    Share,
)
from broker.client.following import Following
from broker.client.outbox import NO_LIMITS, Limits, Outbox
from broker.client.questions import Questions
from broker.client.received import ReceivedEvent, TypeChanged
from broker.client.wish import Wish
from broker.errors import ProtocolError, UnknownSubscription, from_wire
from broker.event.identity import EventId
from broker.event.place import Place, Position
from broker.wire import messages
from broker.wire.batches import Delivered, decode_delivery
from broker.wire.codec import Message
from broker.wire.messages import (
    DELIVER,
    Acknowledge,
    Answer,
    Ask,
    Credit,
    Ended,
    Flowing,
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
        self, outbox: Outbox, window_bytes: int, left: Mapping[str, Left] | None = None
    ) -> None:
        """`window_bytes` bounds deliveries that have arrived and that no user has taken yet; `left`
        is where the last process of this client left its durable subscriptions."""
        self.outbox = outbox
        self._most_held = window_bytes // 2
        self._room = DeliveryRoom(window_bytes)
        self._node = ""
        """Address of the node of the newest session."""
        self._subscriptions: dict[int, Following] = {}
        self._ending: dict[int, tuple[Following, bool]] = {}
        """Unsubscribed, but the node has not said so yet; and whether it shall forget them."""
        self._version = 1
        """Protocol version of the newest session."""
        self._numbers = itertools.count(1)
        self.positions = Acknowledging(self._subscriptions, left or {}, self._numbers)
        self._questions = Questions()
        self._unsaid: list[Message] = []
        """Wishes while there was no connection: a session that is resumed does not know them."""
        self._previous: Place | None = None
        self._retry_at: float | None = None
        self._held_up = False
        self._duplicates_dropped = 0
        """Of subscriptions that are over."""

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

    def subscribe(self, wish: Wish) -> tuple[int, list[Effect]]:
        """Ask for a subscription; what becomes of it arrives under the returned number."""
        number = next(self._numbers)
        following = Following(
            number, wish, self._most_held, self.positions.leaving.of(wish.durable)
        )
        self._subscriptions[number] = following
        return number, self._say(following.subscribe())

    def unsubscribe(self, number: int, *, forget: bool = False) -> list[Effect]:
        """End a subscription; with `forget` nothing of a durable one stays at the node."""
        if number not in self._subscriptions:
            return []
        following = self._subscriptions.pop(number)
        self._duplicates_dropped += following.duplicates_dropped
        self._ending[number] = (following, forget)
        effects = self._drop_held(following)
        name = following.wish.durable
        if name and following.processed != following.acknowledged:
            effects += self._say(Acknowledge(((number, following.processed.to_wire()),)))
        if name:
            leaving = self.positions.leaving
            leaving.leave(following)
            if forget:
                leaving.forget(name)
            effects += leaving.keep()
        effects += self._say(Unsubscribe(number, forget))
        if not self.connected:
            effects.append(Arrived(number, Over(None, following.processed)))
        return effects

    def ask(
        self, what: str, arguments: Mapping[str, str], document: bytes = b""
    ) -> tuple[int, list[Effect]]:
        """Ask the node something, maybe about an event; the answer comes under the number. Raises
        `TooLarge` or `BadName` for a question that no message can hold."""
        ask = Ask(next(self._numbers), what, arguments, document)
        self._questions.add(ask)
        return ask.request, self._say(ask)

    def taken(self, number: int, item: Item, now: float) -> list[Effect]:
        """The user has processed something that arrived: the position moves on."""
        effects = self.discarded(item)
        following = self._subscriptions.get(number)
        if following is None:
            return effects
        if isinstance(item, Portion):
            self.positions.processed(following, item.position, len(item.events), now)
        elif isinstance(item, Moved):
            self.positions.processed(following, item.position, 0, now)
        if following.since_acknowledged >= ACKNOWLEDGE_EVENTS:
            effects += self.positions.acknowledge()
        return effects

    def discarded(self, item: Item) -> list[Effect]:
        """The user does not want this any more: no position moves, but its room is free again."""
        if not isinstance(item, Portion):
            return []
        self._free(item)
        return self._grant()

    def _free(self, portion: Portion) -> None:
        portion.share.remaining -= 1
        if portion.share.remaining == 0:
            self._room.free(portion.share.size)

    def _grant(self) -> list[Effect]:
        limit = self._room.grant() if self.connected else None
        return [] if limit is None else [_send(Credit(limit))]

    def position(self, number: int) -> Position:
        """How far the user has processed a subscription, nothing missing."""
        following = self._subscriptions.get(number)
        return Position() if following is None else following.processed

    @property
    def duplicates_dropped(self) -> int:
        """How many events came again for any subscription, and were dropped."""
        now = sum(each.duplicates_dropped for each in self._subscriptions.values())
        return self._duplicates_dropped + now

    def duplicates_of(self, number: int) -> int:
        """How many events came again for a subscription, and were dropped."""
        following = self._subscriptions.get(number)
        return 0 if following is None else following.duplicates_dropped

    def _drop_held(self, following: Following) -> list[Effect]:
        dropped = following.drop_held()
        return [effect for portion in dropped for effect in self.discarded(portion)]

    def _say(self, message: Message) -> list[Effect]:
        if self.connected:
            return [self._send(message)]
        self._unsaid.append(message)
        return []

    # ------------------------------------------------------------------ the connection

    def session_up(
        self, resumed: bool, node: str = "", limits: Limits = NO_LIMITS, version: int = 1
    ) -> list[Effect]:
        """Connected, to the node with this address. If it does not remember the session,
        everything open is said again. What exceeds `limits`, of an event and a frame in bytes,
        fails. `version` is the session's protocol version."""
        self.positions.connected = True
        self._version = version
        self._node = node
        unsaid, self._unsaid = self._unsaid, []
        if resumed:
            said = [*map(self._send, unsaid), *self.positions.acknowledge(), *self._grant()]
            return [*said, *self.positions.confirm()]
        self._previous = None
        self._retry_at = None
        self.outbox.send_all_again()
        refused = self.outbox.apply_limits(*limits)
        effects: list[Effect] = [Settled(waiter, error) for waiter, error in refused]
        effects += self._questions.remove_larger(limits[0])
        for subscription in self._subscriptions.values():
            for portion in subscription.drop_held():
                self._free(portion)
        effects.append(_send(Credit(self._room.begin())))
        for subscription in self._subscriptions.values():
            subscription.acknowledged = Position()
            effects.append(self._send(subscription.subscribe()))
        for number, (subscription, forget) in list(self._ending.items()):
            name = subscription.wish.durable
            owed = name in self.positions.leaving.unconfirmed
            if name and (forget or owed):
                # Only a session that has it can have it forgotten, or move its position.
                effects.append(self._send(subscription.subscribe()))
                if owed:
                    moved = ((number, subscription.processed.to_wire()),)
                    effects.append(_send(Acknowledge(moved)))
                effects.append(_send(Unsubscribe(number, forget)))
            else:
                del self._ending[number]
                effects.append(Arrived(number, Over(None, subscription.processed)))
        effects += [*map(_send, self._questions.all_open()), *self.positions.acknowledge()]
        return [*effects, *self.positions.confirm()]

    def session_down(self) -> None:
        """No connection at the moment."""
        self.positions.connected = False

    @property
    def connected(self) -> bool:
        """Whether there is a session that has a connection."""
        return self.positions.connected

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
        if isinstance(message, Answer) and self.positions.leaving.is_answer(message.request):
            return self.positions.confirmed(message, now)
        if isinstance(message, Answer):
            self._questions.remove(message.request)
            error = from_wire(message.error) if message.error[0] else None
            return [Answered(message.request, message.content, error)]
        if isinstance(message, Progress):
            return self._progressed(message)
        if isinstance(message, Ended) and message.number in self._ending:
            subscription, _ = self._ending.pop(message.number)
            return [Arrived(message.number, Over(None, subscription.processed))]
        if isinstance(message, _ABOUT_SUBSCRIPTIONS):
            known = self._subscriptions.get(message.number)
            return [] if known is None else self._told(known, message)
        raise ProtocolError(f"{type(message).__name__} is not for a client")

    def _progressed(self, message: Progress) -> list[Effect]:
        effects: list[Effect] = []
        times = dict(message.times)
        moved = {**dict.fromkeys(times, ()), **dict(message.positions)}
        for number, position in moved.items():
            following = self._subscriptions.get(number)
            if following is not None:
                items = following.progresses(Position.from_wire(position), times.get(number, ()))
                effects += _arrived(number, items)
        return effects

    def _send(self, message: Message) -> Send:
        return Send(messages.encode(message, self._version))

    def _told(self, following: Following, message: _AboutSubscription) -> list[Effect]:
        number = following.number
        if isinstance(message, Subscribed):
            return _arrived(number, following.accepted(message))
        if isinstance(message, Flowing):
            return _arrived(number, following.flows(message, self._node))
        if isinstance(message, Ended):
            going_on = following.goes_on(message)
            if going_on is not None:
                return [*_arrived(number, going_on), *self._say(following.subscribe())]
            del self._subscriptions[number]
            self._duplicates_dropped += following.duplicates_dropped
            ended = _arrived(number, following.ends(message))
            if message.error[0] == UnknownSubscription.code and following.wish.durable:
                # It was deleted: whoever takes the name up again begins anew.
                self.positions.leaving.forget(following.wish.durable)
                ended += self.positions.leaving.keep()
            return ended
        if isinstance(message, messages.TypeChanged):
            return [Arrived(number, TypeChanged.of(message))]
        return _arrived(number, following.misses(message))

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
        effects: list[Effect] = [Consumed(1)]
        for number, events in known.items():
            effects += _arrived(number, self._subscriptions[number].arrives(events, share))
        return effects


def _arrived(number: int, items: Iterable[Item]) -> list[Effect]:
    return [Arrived(number, item) for item in items]


def _send(message: Message) -> Send:
    return Send(messages.encode(message))


def _received(event: Delivered) -> ReceivedEvent:
    return ReceivedEvent(event.place, event.header, event.liveness, event.document)
