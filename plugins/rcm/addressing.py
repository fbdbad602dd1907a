"""Messages of a group on their way to its links: in parts, and for some sites only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from broker.transport.order import IPacketCodec, Message, OrderEffect, Packet, Send
from plugins.rcm.effects import SendMessages
from plugins.rcm.held_events import HeldEvent, HeldMessage
from plugins.rcm.payload import Channel, ChannelMessage, encode_payload

#: Of the documents in one message of a link, unless one is larger.
MOST_MESSAGE_BYTES = 256 << 10


def split_messages(packets: Sequence[Packet]) -> list[list[Message]]:
    """Return the messages in parts of moderate size."""
    parts: list[list[Message]] = [[]]
    size = 0
    for message in packets:
        assert isinstance(message, Message)
        size += len(message.payload)
        if parts[-1] and size > MOST_MESSAGE_BYTES:
            parts.append([])
            size = len(message.payload)
        parts[-1].append(message)
    return parts


def send_addressed(
    send: OrderEffect,
    released: Sequence[HeldEvent | HeldMessage],
    sites: Sequence[str],
    codec: IPacketCodec,
) -> Iterator[SendMessages]:
    """Send released messages to all other sites, of which some are for some sites only."""
    assert isinstance(send, Send)
    first = 0
    for part in split_messages(send.packets):
        held = released[first : first + len(part)]
        carried = [each.message for each in held if isinstance(each, HeldMessage) and each.message]
        for messages, group in _address(part, held, sites):
            yield SendMessages(codec.encode(messages), group, carried)
        first += len(part)


def _address(
    messages: Sequence[Message], held: Sequence[HeldEvent | HeldMessage], sites: Sequence[str]
) -> Iterator[tuple[Sequence[Message], Sequence[str]]]:
    """Yield the messages for some sites each: a message for other sites is empty there, and keeps
    its place."""
    limited = [
        (index, each.channel, each.message.destinations)
        for index, each in enumerate(held)
        if isinstance(each, HeldMessage)
        and each.message is not None
        and len(each.message.destinations) < len(sites)
    ]
    if not limited:
        yield messages, sites
        return
    alike: dict[tuple[tuple[int, Channel], ...], list[str]] = {}
    for site in sites:
        emptied = tuple((index, channel) for index, channel, to in limited if site not in to)
        alike.setdefault(emptied, []).append(site)
    for emptied, group in alike.items():
        found = list(messages)
        for index, channel in emptied:
            payload = encode_payload(ChannelMessage(channel, b""))
            found[index] = found[index]._replace(payload=payload)
        yield found, group
