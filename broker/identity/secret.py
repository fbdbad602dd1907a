"""Hashes of secrets.

Hashing takes tens of milliseconds: never call it in the reactor's thread.
"""

from __future__ import annotations

import hmac
import os
from typing import Final

from broker.config.stored_secret import StoredSecret
from broker.scram.key_derivation import PBKDF2, KeyDerivation
from broker.scram.keys import ClientKeys

ITERATIONS: Final = 100_000
SALT_BYTES: Final = 16
#: A longer secret is rejected: clients can not make the node hash megabytes.
MAX_SECRET_BYTES: Final = 1024


def hash_secret(secret: str) -> str:
    """Return the stored form. Raises `ValueError` for an empty or too long secret."""
    given = secret.encode()
    if not 0 < len(given) <= MAX_SECRET_BYTES:
        raise ValueError(f"a secret has 1 to {MAX_SECRET_BYTES} bytes")
    derivation = KeyDerivation(PBKDF2, (ITERATIONS,), os.urandom(SALT_BYTES))
    keys = ClientKeys.from_salted(derivation.derive(given))
    return str(StoredSecret(derivation, keys.stored))


def matches_secret(given: bytes, stored: StoredSecret) -> bool:
    """Compare in constant time."""
    if len(given) > MAX_SECRET_BYTES:
        return False
    keys = ClientKeys.from_salted(stored.derivation.derive(given))
    return hmac.compare_digest(keys.stored.stored_key, stored.keys.stored_key)
