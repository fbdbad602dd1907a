"""Messages of a node for a client's core, and views of its effects."""

from __future__ import annotations

from typing import Any

from broker.client.core import ClientCore
from broker.client.effects import (
    Effect,
    ItemArrived,
    MessagesConsumed,
    Send,
)
from broker.client.outbox import Outbox
from broker.client.received import NEW, Start
from broker.client.subscription_request import SubscriptionRequest
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.place import Position
from broker.log.logged_event import LoggedEvent, encode_header
from broker.wire import messages
from broker.wire.codec import Message
from broker.wire.event_batch import (
    EncodedEvents,
    encode_delivery,
    encode_events,
)
from broker.wire.messages import Credit, Flowing, Subscribed


def at(offset: int, epoch: int = 1) -> Position:
    return Position({"n": (epoch, offset)})


def logged(*offsets: int, epoch: int = 1) -> EncodedEvents:
    return encode_events([event_at("n", offset, epoch) for offset in offsets])


def event_at(origin: str, offset: int, epoch: int = 1, *, number: int = 0) -> LoggedEvent:
    """The sequence number is the offset, unless `number` is given."""
    event_id = EventId("p", 1, number or offset, 1)
    header = Header(event_id, "s", "t", "1.0", SecurityLevel.MED, Liveness.LIVE)
    return LoggedEvent(epoch, offset, 0, 1, encode_header(header), b"<e/>", origin, offset)


def delivery(
    *offsets: int, numbers: tuple[int, ...] = (1,), previous: int | None = None, epoch: int = 1
) -> bytes:
    before = None if previous is None else ("n", epoch, previous)
    return encode_delivery(
        logged(*offsets, epoch=epoch), [(len(offsets), numbers)], Liveness.LIVE, before
    )


#: More than most tests fill.
WINDOW = 1 << 20


def receive(core: ClientCore, *decoded: Message | bytes, now: float = 0.0) -> list[Effect]:
    effects: list[Effect] = []
    for message in decoded:
        data = message if isinstance(message, bytes) else messages.encode(message)
        effects += core.receive_message(data, now)
    return effects


def sent(effects: list[Effect]) -> list[Message]:
    decoded = [messages.decode(effect.data) for effect in effects if isinstance(effect, Send)]
    return [message for message in decoded if not isinstance(message, Credit)]


def credit_limits(effects: list[Effect]) -> list[int]:
    decoded = [messages.decode(effect.data) for effect in effects if isinstance(effect, Send)]
    return [message.limit for message in decoded if isinstance(message, Credit)]


def items_for(effects: list[Effect], number: int = 1) -> list[Any]:
    return [e.item for e in effects if isinstance(e, ItemArrived) and e.number == number]


def consumed(effects: list[Effect]) -> int:
    return sum(effect.count for effect in effects if isinstance(effect, MessagesConsumed))


def new_core(connected: bool = True, window: int = WINDOW, version: int = 1) -> ClientCore:
    core = ClientCore(Outbox(100, 100_000), window)
    if connected:
        effects = core.session_up(False, version=version)
        assert (credit_limits(effects), sent(effects)) == ([window], [])
    return core


def subscribe(core: ClientCore, start: Start = NEW, durable: str = "") -> list[Effect]:
    _, effects = core.subscribe(SubscriptionRequest("q", "p.>", {"a": "b"}, durable, start))
    return effects


def flowing_core(start: Start = NEW, durable: str = "", cut: int = 10) -> ClientCore:
    core = new_core()
    subscribe(core, start, durable)
    receive(core, Subscribed(1, None, ()), Flowing(1, (("n", 1, cut),)))
    return core


def process_items(core: ClientCore, effects: list[Effect], now: float = 0.0) -> list[Effect]:
    return [e for item in items_for(effects) for e in core.mark_processed(1, item, now)]


def publish(core: ClientCore, count: int = 1) -> None:
    for number in range(1, count + 1):
        core.publish(b"<e/>", EventId("p", 1, number, 1), f"waiter {number}", None)
