"""Signer of an origin's batches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from broker.order_certificates.signing_key import SigningKey
from broker.signatures.leaf import SALT_BYTES, EventFields, hash_event
from broker.signatures.proof import (
    GROUP_LEAVES,
    MOST_LEAVES,
    encode_shared,
    split_hashes,
    statement,
)

#: Bytes of all positions in a batch.
_POSITIONS: Final = [bytes((index,)) for index in range(MOST_LEAVES)]


class BatchSigner:
    """Signs events of one origin: one signature for at most `MOST_LEAVES` of them."""

    def __init__(self, key: SigningKey, origin: str) -> None:
        self._key = key
        self._origin = origin.encode()

    def sign(self, events: Sequence[EventFields]) -> list[bytes]:
        """Return the proof of each event."""
        proofs: list[bytes] = []
        for start in range(0, len(events), MOST_LEAVES):
            proofs += self._sign_batch(events[start : start + MOST_LEAVES])
        return proofs

    def _sign_batch(self, events: Sequence[EventFields]) -> list[bytes]:
        origin, count = self._origin, len(events)
        random = os.urandom(SALT_BYTES * count)
        salts = [random[at : at + SALT_BYTES] for at in range(0, len(random), SALT_BYTES)]
        leaves = [
            hash_event(salt, origin, event) for salt, event in zip(salts, events, strict=True)
        ]
        roots, groups = split_hashes(leaves)
        signature = self._key.sign(statement(origin, count, roots))
        shared = encode_shared(self._key.public.raw, signature, count)
        return [
            b"".join((shared, _POSITIONS[index], salt, groups[index // GROUP_LEAVES]))
            for index, salt in enumerate(salts)
        ]
