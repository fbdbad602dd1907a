"""What a node says to a client's core, and what the core makes of it."""

from __future__ import annotations

from typing import Any

from broker.client.core import ClientCore
from broker.client.effects import (
    Arrived,
    Consumed,
    Effect,
    Send,
)
from broker.client.outbox import Outbox
from broker.client.received import NEW, Start
from broker.client.wish import Wish
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.identity import EventId
from broker.event.place import Position
from broker.log.records import LoggedEvent, encode_header
from broker.wire import messages
from broker.wire.batches import (
    EncodedEvents,
    encode_delivery,
    encode_events,
)
from broker.wire.codec import Message
from broker.wire.messages import Credit, Flowing, Subscribed


def at(offset: int, epoch: int = 1) -> Position:
    return Position({"n": (epoch, offset)})


def logged(*offsets: int, epoch: int = 1) -> EncodedEvents:
    return encode_events([event_at("n", offset, epoch) for offset in offsets])


def event_at(origin: str, offset: int, epoch: int = 1, *, number: int = 0) -> LoggedEvent:
    """An event of a publisher whose numbers are the offsets, unless there is another `number`."""
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


#: Room for deliveries that the user has not taken, in bytes: more than most tests fill.
WINDOW = 1 << 20


def tell(core: ClientCore, *said: Message | bytes, now: float = 0.0) -> list[Effect]:
    effects: list[Effect] = []
    for message in said:
        data = message if isinstance(message, bytes) else messages.encode(message)
        effects += core.message_received(data, now)
    return effects


def sent(effects: list[Effect]) -> list[Message]:
    """The messages for the node, credit left out."""
    said = [messages.decode(effect.data) for effect in effects if isinstance(effect, Send)]
    return [message for message in said if not isinstance(message, Credit)]


def credit(effects: list[Effect]) -> list[int]:
    """The limits told to the node."""
    said = [messages.decode(effect.data) for effect in effects if isinstance(effect, Send)]
    return [message.limit for message in said if isinstance(message, Credit)]


def arrived(effects: list[Effect], number: int = 1) -> list[Any]:
    return [e.item for e in effects if isinstance(e, Arrived) and e.number == number]


def consumed(effects: list[Effect]) -> int:
    return sum(effect.count for effect in effects if isinstance(effect, Consumed))


def new_core(connected: bool = True, window: int = WINDOW) -> ClientCore:
    core = ClientCore(Outbox(100, 100_000), window)
    if connected:
        effects = core.session_up(False)
        assert (credit(effects), sent(effects)) == ([window], [])
    return core


def subscribe(core: ClientCore, start: Start = NEW, durable: str = "") -> list[Effect]:
    _, effects = core.subscribe(Wish("q", "p.>", {"a": "b"}, durable, start))
    return effects


def flowing(start: Start = NEW, durable: str = "", cut: int = 10) -> ClientCore:
    core = new_core()
    subscribe(core, start, durable)
    tell(core, Subscribed(1, None, ()), Flowing(1, (("n", 1, cut),)))
    return core


def take(core: ClientCore, effects: list[Effect], now: float = 0.0) -> list[Effect]:
    """The user processes all that arrived."""
    return [e for item in arrived(effects) for e in core.taken(1, item, now)]


def publish(core: ClientCore, count: int = 1) -> None:
    for number in range(1, count + 1):
        core.publish(b"<e/>", EventId("p", 1, number, 1), f"waiter {number}")
