"""Proof in an event's record: the origin has signed the event at this place.

    version u8 = 1 | public key 32 | signature 64 | leaves u8 | position u8 | salt 16 | path

The signature covers `DOMAIN`, the number of leaves, the root of the tree of leaves, and the origin.
The path has the hashes beside the way from the leaf to the root. So each event is checked alone,
whichever events of its batch have come with it.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from broker.errors import BadSignature
from broker.order_certificates.merkle import HASH_BYTES
from broker.signatures.leaf import SALT_BYTES

VERSION: Final = 1
DOMAIN: Final = b"xmlbroker batch of an origin 1\0"
#: More leaves make longer paths: five hashes.
MOST_LEAVES: Final = 32
_HEAD = struct.Struct(f">B32s64sBB{SALT_BYTES}s")


class Proof(NamedTuple):
    key: bytes
    """The origin's public key, 32 bytes."""
    signature: bytes
    leaves: int
    """Leaves of the tree."""
    position: int
    """Number of the event's leaf, from 0."""
    salt: bytes
    path: bytes
    """Concatenated hashes, from the leaf upwards."""


def encode_proof(proof: Proof) -> bytes:
    *head, path = proof
    return _HEAD.pack(VERSION, *head) + path


def decode_proof(data: bytes) -> Proof:
    """Raises `BadSignature`."""
    if len(data) < _HEAD.size or data[0] != VERSION:
        raise BadSignature("the proof of an event is malformed, or of a later version")
    _, key, signature, leaves, position, salt = _HEAD.unpack_from(data)
    proof = Proof(key, signature, leaves, position, salt, data[_HEAD.size :])
    if not position < leaves <= MOST_LEAVES or len(proof.path) % HASH_BYTES:
        raise BadSignature("the proof of an event is malformed")
    return proof


def statement(origin: bytes, leaves: int, root: bytes) -> bytes:
    """Return the signed bytes."""
    return b"".join((DOMAIN, bytes((leaves,)), root, origin))
