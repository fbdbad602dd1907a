"""Secrets hashed with scrypt.

Hashing takes tens of milliseconds and 16 MiB: never call it in the reactor's thread.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import Final

from broker.config.stored_secret import StoredSecret

COST_N: Final = 2**14
COST_R: Final = 8
COST_P: Final = 1
SALT_BYTES: Final = 16
DIGEST_BYTES: Final = 32
#: A longer secret is rejected: clients can not make the node hash megabytes.
MAX_SECRET_BYTES: Final = 1024


def hash_secret(secret: str) -> str:
    """Raises `ValueError` for an empty or too long secret."""
    given = secret.encode()
    if not 0 < len(given) <= MAX_SECRET_BYTES:
        raise ValueError(f"a secret has 1 to {MAX_SECRET_BYTES} bytes")
    salt = os.urandom(SALT_BYTES)
    digest = _derive(given, salt, COST_N, COST_R, COST_P, DIGEST_BYTES)
    return str(StoredSecret(COST_N, COST_R, COST_P, salt, digest))


def matches_secret(given: bytes, stored: StoredSecret) -> bool:
    """Compare in constant time."""
    if len(given) > MAX_SECRET_BYTES:
        return False
    digest = _derive(given, stored.salt, stored.n, stored.r, stored.p, len(stored.digest))
    return hmac.compare_digest(digest, stored.digest)


def unmatchable_secret() -> StoredSecret:
    """For unknown accounts: the check costs the same, and always fails."""
    return StoredSecret(COST_N, COST_R, COST_P, os.urandom(SALT_BYTES), os.urandom(DIGEST_BYTES))


def _derive(secret: bytes, salt: bytes, n: int, r: int, p: int, length: int) -> bytes:
    # OpenSSL's own limit is too small for n = 2**15; twice the need is enough for any cost.
    memory = 2 * 128 * r * (n + p + 2)
    return hashlib.scrypt(secret, salt=salt, n=n, r=r, p=p, maxmem=memory, dklen=length)
