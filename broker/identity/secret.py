"""Hashing and checking secrets with scrypt.

Both take tens of milliseconds and 16 MiB, on purpose: never call them in the reactor's thread.
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
#: A longer secret is refused unread, so that nobody makes the node hash megabytes.
MOST_SECRET_BYTES: Final = 1024


def hash_secret(secret: str) -> str:
    """What to write into the configuration for a secret; `ValueError` when it is empty or long."""
    given = secret.encode()
    if not 0 < len(given) <= MOST_SECRET_BYTES:
        raise ValueError(f"a secret has 1 to {MOST_SECRET_BYTES} bytes")
    salt = os.urandom(SALT_BYTES)
    digest = _derive(given, salt, COST_N, COST_R, COST_P, DIGEST_BYTES)
    return str(StoredSecret(COST_N, COST_R, COST_P, salt, digest))


def is_secret(given: bytes, stored: StoredSecret) -> bool:
    """Whether `given` is the secret that was stored, in a time that does not depend on how near."""
    if len(given) > MOST_SECRET_BYTES:
        return False
    digest = _derive(given, stored.salt, stored.n, stored.r, stored.p, len(stored.digest))
    return hmac.compare_digest(digest, stored.digest)


def unmatchable_secret() -> StoredSecret:
    """What an unknown account is checked against: it costs the same and no secret is known."""
    return StoredSecret(COST_N, COST_R, COST_P, os.urandom(SALT_BYTES), os.urandom(DIGEST_BYTES))


def _derive(secret: bytes, salt: bytes, n: int, r: int, p: int, length: int) -> bytes:
    # OpenSSL's own limit of 32 MiB is just too small for n = 2**15; twice what the cost asks is
    # enough for any cost that StoredSecret lets pass.
    memory = 2 * 128 * r * (n + p + 2)
    return hashlib.scrypt(secret, salt=salt, n=n, r=r, p=p, maxmem=memory, dklen=length)
