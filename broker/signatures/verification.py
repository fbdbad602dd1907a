"""Check of the proofs of events."""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.errors import BadSignature
from broker.event.origin import origin_has_key
from broker.event.place import Mark
from broker.event.record import PLAIN, PROVED, around_proof, split_record
from broker.order_certificates.signing_key import has_signed
from broker.signatures.leaf import HASH_BYTES, SALT_BYTES, EventFields, hash_event
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
_PROVED: Final = PROVED[0]


class _ProvedGroup(NamedTuple):
    """A group of which the hashes are proved.

    The records of its events end in equal bytes, but for the position and the salt.
    """

    length: int
    """Of these bytes."""
    before: bytes
    """Those up to the position."""
    after: bytes
    """Those behind the salt."""
    hashes: bytes
    number: int
    leaves: int

    @classmethod
    def of(cls, proof: bytes, found: Proof) -> _ProvedGroup:
        before, after = around_proof(len(proof))
        return cls(
            len(before) + len(proof) + len(after),
            before + proof[:SHARED_BYTES],
            found.hashes + after,
            found.hashes,
            found.position // GROUP_LEAVES,
            found.leaves,
        )

    def find_position(self, record: bytes) -> int:
        """Return the index of the position in a record of this group; 0 for other records."""
        start = len(record) - self.length
        if start <= 0 or record[0] != _PROVED or not record.startswith(self.before, start):
            return 0
        at = start + len(self.before)
        position = record[at]
        is_of_group = position < self.leaves and position // GROUP_LEAVES == self.number
        return at if is_of_group and record.endswith(self.after) else 0


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
        self._last: _ProvedGroup | None = None

    def check(self, mark: Mark, record: bytes, digest: bytes) -> EventFields | None:
        """Return the event that the proof in its record covers; None without a proof.

        `digest` is the SHA-256 of the document. Raises `BadSignature`.
        """
        last = self._last
        if last is not None and (at := last.find_position(record)):
            event = mark, PLAIN + record[1 : at - len(last.before)], digest
            leaf = hash_event(record[at + 1 : at + 1 + SALT_BYTES], self._name, event)
            first = record[at] % GROUP_LEAVES * HASH_BYTES
            if leaf == last.hashes[first : first + HASH_BYTES]:
                return event
        plain, _, proof = split_record(record)
        if not proof:
            return None
        event = mark, plain, digest
        self._check_proof(event, proof)
        return event

    def _check_proof(self, event: EventFields, proof: bytes) -> None:
        found = decode_proof(proof)
        groups = group_hashes(found, hash_event(found.salt, self._name, event))
        shared = proof[:SHARED_BYTES]
        if (shared, groups) not in self._signed:
            self._check_signature(found, groups)
            self._signed.add((shared, groups))
        self._last = _ProvedGroup.of(proof, found)

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
