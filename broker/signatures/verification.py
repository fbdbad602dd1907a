"""Check of the proofs of events."""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.errors import BadSignature
from broker.event.origin import origin_has_key
from broker.order_certificates.signing_key import has_signed
from broker.signatures.leaf import HASH_BYTES, PlacedEvent, hash_event
from broker.signatures.proof import (
    GROUP_LEAVES,
    HEAD_BYTES,
    SHARED_BYTES,
    Proof,
    decode_proof,
    group_hashes,
    statement,
)

#: Wrong keys that one checker hashes.
MOST_FOREIGN_KEYS: Final = 4


class _ProvedGroup(NamedTuple):
    """Parts of the proofs of a group, of which the hashes are proved."""

    shared: bytes
    hashes: bytes
    number: int
    leaves: int

    def hash_of(self, proof: bytes) -> bytes:
        """Return the hash of the leaf that a proof of this group is for; empty for others."""
        hashes = self.hashes
        if len(proof) != HEAD_BYTES + len(hashes):
            return b""
        position = proof[SHARED_BYTES]
        is_of_group = position < self.leaves and position // GROUP_LEAVES == self.number
        if not (is_of_group and proof.startswith(self.shared) and proof.endswith(hashes)):
            return b""
        at = position % GROUP_LEAVES * HASH_BYTES
        return hashes[at : at + HASH_BYTES]


class ProofChecker:
    """Checks events of one origin, in one batch of work.

    Neighbouring events of a group cost one hash each, and each group one more. A new checker begins
    without any.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._name = origin.encode()
        self._key: bytes | None = None
        self._foreign_keys: set[bytes] = set()
        self._signed: set[tuple[bytes, bytes]] = set()
        """Shared bytes of proofs, and concatenated hashes of all groups."""
        self._last = _ProvedGroup(b"", b"", 0, 0)

    def check(self, event: PlacedEvent, proof: bytes) -> None:
        """Raises `BadSignature`."""
        expected = self._last.hash_of(proof)
        if expected:
            leaf = hash_event(proof[SHARED_BYTES + 1 : HEAD_BYTES], self._name, event)
            if leaf == expected:
                return
        found = decode_proof(proof)
        groups = group_hashes(found, hash_event(found.salt, self._name, event))
        shared = proof[:SHARED_BYTES]
        if (shared, groups) not in self._signed:
            self._check_signature(found, groups)
            self._signed.add((shared, groups))
        number = found.position // GROUP_LEAVES
        self._last = _ProvedGroup(shared, found.hashes, number, found.leaves)

    def _check_signature(self, proof: Proof, groups: bytes) -> None:
        if not has_signed(proof.key, proof.signature, statement(self._name, proof.leaves, groups)):
            raise BadSignature(f"an event of the log {self._origin} is not the one that was signed")
        if not self._is_own_key(proof.key):
            raise BadSignature(f"the log {self._origin} does not belong to the key of its proof")

    def _is_own_key(self, key: bytes) -> bool:
        """Hash few keys: each takes milliseconds, and only one key belongs to a log."""
        if self._key is None and key not in self._foreign_keys:
            if len(self._foreign_keys) >= MOST_FOREIGN_KEYS:
                return False
            if origin_has_key(self._origin, key):
                self._key = key
            else:
                self._foreign_keys.add(key)
        return key == self._key
