"""Check of the proofs of events."""

from __future__ import annotations

from typing import Final

from broker.errors import BadSignature
from broker.event.origin import origin_has_key
from broker.order_certificates.signing_key import has_signed
from broker.signatures.leaf import PlacedEvent, hash_event
from broker.signatures.proof import (
    GROUP_LEAVES,
    SHARED_BYTES,
    Proof,
    decode_proof,
    group_hashes,
    statement,
)

#: Wrong keys that one checker hashes.
MOST_FOREIGN_KEYS: Final = 4


class ProofChecker:
    """Checks events of one origin, in one batch of work.

    The hashes of a group are kept once they are proved, so that a further event of it costs one
    hash. A new checker begins without any.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._name = origin.encode()
        self._key: bytes | None = None
        self._foreign_keys: set[bytes] = set()
        self._signed: set[tuple[bytes, bytes]] = set()
        """Shared bytes of proofs, and concatenated hashes of all groups."""
        self._proved: set[tuple[bytes, bytes, int]] = set()
        """Shared bytes, hashes and number of a group."""

    def check(self, event: PlacedEvent, proof: bytes) -> None:
        """Raises `BadSignature`."""
        found = decode_proof(proof)
        leaf = hash_event(found.salt, self._name, event)
        shared = proof[:SHARED_BYTES]
        group = (shared, found.hashes, found.position // GROUP_LEAVES)
        if group in self._proved and found.own_hash == leaf:
            return
        groups = group_hashes(found, leaf)
        if (shared, groups) not in self._signed:
            self._check_signature(found, groups)
            self._signed.add((shared, groups))
        if found.leaves > 1:
            self._proved.add(group)

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
