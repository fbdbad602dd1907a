"""Signer of an origin's committed batches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from broker.order_certificates.merkle import root_and_paths
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.leaf import SALT_BYTES, PlacedEvent, hash_event
from broker.signatures.proof import MOST_LEAVES, Proof, encode_proof, statement


class BatchSigner:
    """Signs events of one origin: one signature for at most `MOST_LEAVES` of them."""

    def __init__(self, key: SigningKey, origin: str) -> None:
        self._key = key
        self._origin = origin.encode()

    def sign(self, events: Sequence[PlacedEvent]) -> list[bytes]:
        """Return the proof of each event."""
        salts = os.urandom(SALT_BYTES * len(events))
        proofs: list[bytes] = []
        for start in range(0, len(events), MOST_LEAVES):
            batch = events[start : start + MOST_LEAVES]
            proofs += self._sign_batch(batch, salts[SALT_BYTES * start :])
        return proofs

    def _sign_batch(self, events: Sequence[PlacedEvent], salts: bytes) -> Iterator[bytes]:
        origin, count = self._origin, len(events)
        own = [salts[SALT_BYTES * i : SALT_BYTES * (i + 1)] for i in range(count)]
        hashes = [hash_event(salt, origin, event) for salt, event in zip(own, events, strict=True)]
        root, paths = root_and_paths(hashes)
        signature = self._key.sign(statement(origin, count, root))
        key = self._key.public.raw
        for index, (salt, path) in enumerate(zip(own, paths, strict=True)):
            yield encode_proof(Proof(key, signature, count, index, salt, path))
