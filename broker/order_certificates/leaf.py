"""Leaf of a block: the place of one event in the order of its group, and a digest of the event.

The bytes are a msgpack array with the shortest form of each element:

    stamp, tie, site, incarnation, number,
    ClientId, its incarnation, its sequence number, time stamp, digest
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated, Final, NamedTuple, Protocol, TypeAlias

import msgspec

from broker.errors import ProtocolError
from broker.event.event_id import EventId

MOST_LEAF_BYTES: Final = 512

#: Sort key of an event in the order: stamp, tie, site, incarnation and number of its message.
Key: TypeAlias = tuple[int, str, str, int, int]

_MAX_SIGNED: Final = 2**63 - 1
_Stamp: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=_MAX_SIGNED)]
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_MAX_SIGNED)]
_Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_Hash: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
_Fields: TypeAlias = tuple[
    _Stamp, _Name, _Name, _Number, _Number, _Name, _Number, _Number, _Number, _Hash
]
_decoder = msgspec.msgpack.Decoder(_Fields)
_encode = msgspec.msgpack.Encoder().encode


class Identity(Protocol):
    """The fields of an `EventId`."""

    @property
    def client_id(self) -> str: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def sequence_number(self) -> int: ...
    @property
    def incarnation(self) -> int: ...


class Leaf(NamedTuple):
    """Place and identity of an event. `tie` orders equal stamps, and is the name of a site."""

    stamp: int
    tie: str
    site: str
    """With incarnation and number: the id of the message of its group."""
    incarnation: int
    number: int
    event_id: EventId
    digest: bytes
    """SHA-256 of the document."""

    @property
    def key(self) -> Key:
        return self[:5]


def digest_of(document: bytes) -> bytes:
    return sha256(document).digest()


def encode_leaf(leaf: Leaf) -> bytes:
    client_id, timestamp, sequence_number, incarnation = leaf.event_id
    return _encode((*leaf.key, client_id, incarnation, sequence_number, timestamp, leaf.digest))


def encode_leaves(
    first: Key, identities: Sequence[Identity], documents: Sequence[bytes]
) -> list[bytes]:
    """Return the leaves of events whose stamps and numbers follow each other."""
    stamp, tie, site, incarnation, number = first
    count = len(documents)
    stamps, numbers = range(stamp, stamp + count), range(number, number + count)
    data: list[bytes] = []
    for stamp, number, of, document in zip(stamps, numbers, identities, documents, strict=True):
        identity = of.client_id, of.incarnation, of.sequence_number, of.timestamp
        digest = sha256(document).digest()
        data.append(_encode((stamp, tie, site, incarnation, number, *identity, digest)))
    return data


def key_of(leaf: bytes) -> Key:
    """Return the key of a leaf that is known to be well-formed."""
    key: Key = _decoder.decode(leaf)[:5]
    return key


def decode_leaf(data: bytes) -> Leaf:
    """Raises `ProtocolError`, also for bytes that `encode_leaf` does not return."""
    if len(data) > MOST_LEAF_BYTES:
        raise ProtocolError(f"a leaf of {len(data)} bytes")
    try:
        stamp, tie, site, incarnation, number, *identity, digest = _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ProtocolError(f"malformed leaf: {error}") from None
    client_id, client_incarnation, sequence_number, timestamp = identity
    event_id = EventId(client_id, timestamp, sequence_number, client_incarnation)
    leaf = Leaf(stamp, tie, site, incarnation, number, event_id, digest)
    if encode_leaf(leaf) != data:
        raise ProtocolError("a leaf is not in its shortest form")
    return leaf


def encode_identity(client_id: str, incarnation: int, sequence_number: int) -> bytes:
    """Return bytes that occur in each leaf of the event."""
    return b"".join(map(_encode, (client_id, incarnation, sequence_number)))
