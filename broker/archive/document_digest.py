"""Digest of a row's document: it detects damage, and protects no secret.

A signed event has the first bytes of the document's SHA-256, which its proof needs too. An event
without a proof has a blake2b. So have signed events in files of earlier versions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final, TypeAlias

import pyarrow as pa

DIGEST_BYTES: Final = 16
Documents: TypeAlias = Sequence[bytes | memoryview]


def digest_of(document: bytes | memoryview, *, is_signed: bool = False) -> bytes:
    """Return the digest of the document of an event with or without a proof."""
    if is_signed:
        return sha256(document).digest()[:DIGEST_BYTES]
    return hashlib.blake2b(document, digest_size=DIGEST_BYTES).digest()


def digest_column(documents: Documents, proofs: Sequence[bytes | None] | None) -> pa.Array:
    """Return the column for documents, and proofs if there are any."""
    if proofs is None:
        # Calls of `digest_of` would take a tenth of the time.
        hashed = hashlib.blake2b
        return column_of([hashed(each, digest_size=DIGEST_BYTES).digest() for each in documents])
    rows = zip(documents, proofs, strict=True)
    return column_of([digest_of(each, is_signed=proof is not None) for each, proof in rows])


def column_of(hashes: Sequence[bytes]) -> pa.Array:
    """Return the column of digests, or of hashes that begin with them."""
    whole = b"".join([each[:DIGEST_BYTES] for each in hashes])
    kind = pa.binary(DIGEST_BYTES)
    return pa.Array.from_buffers(kind, len(hashes), [None, pa.py_buffer(whole)])


def are_intact(documents: Sequence[Any], digests: Sequence[bytes], proofs: Sequence[Any]) -> bool:
    """Return False if a document does not match its digest."""
    return all(
        digest == digest_of(document, is_signed=proof is not None)
        or (proof is not None and digest == digest_of(document))
        for document, digest, proof in zip(documents, digests, proofs, strict=True)
    )
