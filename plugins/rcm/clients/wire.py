"""Bytes of a message between clients: the data of `Channel.CLIENTS`."""

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
_decode = msgspec.msgpack.Decoder(ClientMessage).decode


def encode_message(
    source: str, destinations: Sequence[ClientAddress] | None, payload: bytes
) -> bytes:
    """An address with an empty name stands for a site. Raises `TooLarge`."""
    if destinations is not None and len(destinations) > MOST_DESTINATIONS:
        raise TooLarge(f"{len(destinations)} destinations: at most {MOST_DESTINATIONS}")
    pairs = None if destinations is None else tuple(destinations)
    data = _encode(ClientMessage(source, pairs, payload))
    if len(data) > MOST_DATA:
        raise TooLarge(f"a message of {len(data)} bytes: at most {MOST_DATA}")
    return data


def decode_message(data: bytes) -> ClientMessage:
    """Raises `ProtocolError`."""
    try:
        return _decode(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ProtocolError(f"malformed message of a client: {error}") from None
