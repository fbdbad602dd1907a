"""Chat events for tests of the model."""

from __future__ import annotations

from broker.cli.chat_room.message import CHAT, ChatMessage, Presence, write_chat
from broker.client.received import ReceivedEvent
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.order_entry import OrderEntry
from broker.event.place import Place
from broker.event.writer import write_event

NOON = 1_700_000_000_000_000


def chat_event(
    site: str,
    number: int,
    stamp: int | None = None,
    *,
    text: str = "",
    author: str = "",
    presence: Presence | None = None,
    is_late: bool = False,
    payload: bytes | None = None,
) -> ReceivedEvent:
    """A message of the client `site-1`; its stamp is in milliseconds behind `NOON`."""
    client = f"{site}-1"
    time = NOON + 1_000 * (number if stamp is None else stamp)
    event_id = EventId(client, time // 1_000, number, 1)
    message = ChatMessage(author or client, text or f"text {number}", presence)
    content = write_chat(message) if payload is None else payload
    return ReceivedEvent(
        place=Place(site, 1, number),
        header=Header(
            event_id, "chat.ops", CHAT.name, CHAT.version, SecurityLevel.MED, Liveness.LIVE
        ),
        liveness=Liveness.LIVE,
        document=write_event(event_id, "chat.ops", CHAT, content),
        order=OrderEntry("ops", site, 1, number, time, "hybrid", 2_000, is_late),
    )
