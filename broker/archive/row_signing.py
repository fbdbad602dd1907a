"""Signing of own events that are archived before another node gets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from broker.event.placeholder import MAX_PLACEHOLDER_BYTES, digest_of
from broker.signatures.batch_signer import BatchSigner

Proofs: TypeAlias = Sequence[bytes | None]


def complete_proofs(
    proofs: Proofs | None,
    signer: BatchSigner,
    places: tuple[Any, Any],
    records: Sequence[bytes],
    documents: Sequence[bytes | memoryview],
    hashes: Sequence[bytes],
) -> Proofs:
    """Return a proof for each event of one log: its own, or a new one.

    `places` are numpy columns of epochs and offsets, `records` have nine elements, and `hashes` are
    the SHA-256 of the documents.
    """
    marks = zip(*(column.tolist() for column in places), strict=True)
    if min(map(len, documents), default=0) <= MAX_PLACEHOLDER_BYTES:
        # A placeholder has the hash of the document that it stands for.
        hashes = [
            found if len(document) > MAX_PLACEHOLDER_BYTES else digest_of(bytes(document))
            for document, found in zip(documents, hashes, strict=True)
        ]
    events = list(zip(marks, records, hashes, strict=True))
    if proofs is None:
        return signer.sign(events)
    unsigned = [each for each, proof in zip(events, proofs, strict=True) if proof is None]
    new = iter(signer.sign(unsigned))
    return [next(new) if proof is None else proof for proof in proofs]
