"""Proof in an event's record: the origin has signed the event at this place.

    version u8 = 2 | public key 32 | signature 64 | leaves u8 | position u8 | salt 16 | hashes

A batch has a tree of two levels: groups of leaves, and the root. The hashes are those of the leaves
of the event's group, and then those of all groups. A batch of one group has no hashes of groups,
and a batch of one event has no hashes. So each event is checked alone, whichever events of its
batch have come with it. Events of a group share all but the position and the salt.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from broker.errors import BadSignature
from broker.signatures.leaf import HASH_BYTES, SALT_BYTES

VERSION: Final = 2
DOMAIN: Final = b"xmlbroker batch of an origin 2\0"
GROUP_LEAVES: Final = 8
#: A signature costs as much as twenty hashes; more leaves need more groups in each proof.
MOST_LEAVES: Final = GROUP_LEAVES**2
_SHARED: Final = struct.Struct(">B32s64sB")
#: Of the first fields, which are equal for a batch.
SHARED_BYTES: Final = _SHARED.size
#: Of all fields but the hashes.
HEAD_BYTES: Final = SHARED_BYTES + 1 + SALT_BYTES


class Proof(NamedTuple):
    key: bytes
    """The origin's public key, 32 bytes."""
    signature: bytes
    leaves: int
    """Events of the batch."""
    position: int
    """Number of the event in the batch, from 0."""
    salt: bytes
    hashes: bytes
    """Of the leaves of the event's group, and of all groups."""

    @property
    def own_hash(self) -> bytes:
        """Hash of the event's leaf; empty in a batch of one event."""
        at = self.position % GROUP_LEAVES * HASH_BYTES
        return self.hashes[at : at + HASH_BYTES]


def encode_shared(key: bytes, signature: bytes, leaves: int) -> bytes:
    """Return the fields up to the number of leaves, which are equal for a batch."""
    return _SHARED.pack(VERSION, key, signature, leaves)


def encode_proof(proof: Proof) -> bytes:
    key, signature, leaves, position, salt, hashes = proof
    return b"".join((encode_shared(key, signature, leaves), bytes((position,)), salt, hashes))


def decode_proof(data: bytes) -> Proof:
    """Raises `BadSignature`."""
    if len(data) < HEAD_BYTES or data[0] != VERSION:
        raise BadSignature("the proof of an event is malformed, or of another version")
    _, key, signature, leaves = _SHARED.unpack_from(data)
    position = data[SHARED_BYTES]
    if not position < leaves <= MOST_LEAVES:
        raise BadSignature("the proof of an event is malformed")
    salt, hashes = data[SHARED_BYTES + 1 : HEAD_BYTES], data[HEAD_BYTES:]
    return Proof(key, signature, leaves, position, salt, hashes)


def hash_group(hashes: bytes) -> bytes:
    """Return the hash of a group: of the concatenated hashes of its leaves."""
    return sha256(b"\1" + hashes).digest()[:HASH_BYTES]


def split_hashes(leaves: Sequence[bytes]) -> tuple[bytes, list[bytes]]:
    """Return the concatenated hashes of all groups, and the `Proof.hashes` of each group."""
    starts = range(0, len(leaves), GROUP_LEAVES)
    groups = [b"".join(leaves[start : start + GROUP_LEAVES]) for start in starts]
    roots = b"".join(map(hash_group, groups))
    if len(leaves) == 1:
        return roots, [b""]
    return roots, groups if len(groups) == 1 else [each + roots for each in groups]


def group_hashes(proof: Proof, leaf: bytes) -> bytes:
    """Return the concatenated hashes of all groups of a proof, for an event with this hash.

    Raises `BadSignature` if the proof does not have the hash, or has wrong lengths.
    """
    if proof.leaves == 1:
        if proof.hashes:
            raise BadSignature("the proof of an event has wrong hashes")
        return hash_group(leaf)
    group = proof.position // GROUP_LEAVES
    groups = -(-proof.leaves // GROUP_LEAVES)
    end = min(GROUP_LEAVES, proof.leaves - group * GROUP_LEAVES) * HASH_BYTES
    own, roots = hash_group(proof.hashes[:end]), proof.hashes[end:]
    if groups == 1:
        roots += own
    at = group * HASH_BYTES
    if (
        proof.own_hash != leaf
        or len(proof.hashes) < end
        or len(roots) != groups * HASH_BYTES
        or roots[at : at + HASH_BYTES] != own
    ):
        raise BadSignature("the proof of an event has wrong hashes")
    return roots


def statement(origin: bytes, leaves: int, groups: bytes) -> bytes:
    """Return the signed bytes for the concatenated hashes of all groups."""
    return b"".join((DOMAIN, bytes((leaves,)), sha256(b"\2" + groups).digest(), origin))
