"""Bytes of messages between clients, which have one place in the order (`Channel.CLIENTS`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import msgspec

from broker.errors import ProtocolError, TooLarge
from broker.streams.messaging import ClientAddress
from plugins.rcm.payload import MOST_DATA

#: Characters of a client's name.
MOST_NAME = 64
MOST_DESTINATIONS = 1_000
#: With one place.
MOST_MESSAGES = 1_000
#: Of one message; it fits into one place.
MOST_BYTES = MOST_DATA - 16

_Site: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
_Destination: TypeAlias = tuple[_Site, Annotated[str, msgspec.Meta(max_length=MOST_NAME)]]


class ClientMessage(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The site of the source is that of the message's id."""

    source: Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_NAME)]
    destinations: (
        Annotated[tuple[_Destination, ...], msgspec.Meta(max_length=MOST_DESTINATIONS)] | None
    )
    """Sites and names of clients; an empty name stands for all at a site. None: all sites."""
    payload: bytes


_encode = msgspec.msgpack.Encoder().encode
#: None: the message is for other sites.
_Messages: TypeAlias = Annotated[
    tuple[ClientMessage | None, ...], msgspec.Meta(max_length=MOST_MESSAGES)
]
_decode = msgspec.msgpack.Decoder(_Messages).decode


def encode_message(
    source: str, destinations: Sequence[ClientAddress] | None, payload: bytes
) -> msgspec.Raw:
    """An address with an empty name stands for a site. Raises `TooLarge`."""
    if destinations is not None and len(destinations) > MOST_DESTINATIONS:
        raise TooLarge(f"{len(destinations)} destinations: at most {MOST_DESTINATIONS}")
    pairs = None if destinations is None else tuple(destinations)
    encoded = _encode(ClientMessage(source, pairs, payload))
    if len(encoded) > MOST_BYTES:
        raise TooLarge(f"a message of {len(encoded)} bytes: at most {MOST_BYTES}")
    return msgspec.Raw(encoded)


def encode_messages(messages: Sequence[msgspec.Raw | None]) -> bytes:
    return _encode(messages)


def decode_messages(data: bytes) -> Sequence[ClientMessage | None]:
    """Raises `ProtocolError`."""
    try:
        return _decode(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ProtocolError(f"malformed message of a client: {error}") from None
