"""Messages of a group on their way to its links: in parts, and with other data for some sites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from broker.transport.order import IPacketCodec, Message, OrderEffect, Packet, Send
from plugins.rcm.effects import SendMessages
from plugins.rcm.held_events import Held, HeldMessage
from plugins.rcm.payload import ChannelMessage, encode_payload

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
    released: Sequence[Held],
    sites: Sequence[str],
    codec: IPacketCodec,
) -> Iterator[SendMessages]:
    """Send released messages to all other sites, to each with the copies that are for it."""
    assert isinstance(send, Send)
    first = 0
    for part in split_messages(send.packets):
        held = enumerate(released[first : first + len(part)])
        copied = [
            (index, each, each.copies)
            for index, each in held
            if isinstance(each, HeldMessage) and each.copies is not None
        ]
        # A group of one site has its places, too.
        alike: dict[tuple[int, ...], list[str]] = {} if sites else {(-1,) * len(copied): []}
        for site in sites:
            alike.setdefault(tuple(each.find_copy(site) for _, each, _ in copied), []).append(site)
        for numbers, group in alike.items():
            messages, carried = list(part), []
            for (index, each, copies), number in zip(copied, numbers, strict=True):
                data = b""
                if number >= 0:
                    carried.append(copies[number])
                    data = copies[number].payload
                if data is not each.data:
                    # The site gets the message's place, for other sites' numbers.
                    payload = encode_payload(ChannelMessage(each.channel, data))
                    messages[index] = messages[index]._replace(payload=payload)
            yield SendMessages(codec.encode(messages), group, carried)
        first += len(part)
