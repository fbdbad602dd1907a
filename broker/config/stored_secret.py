"""Notation of stored secrets.

`SCRAM-SHA-256$100000:SALT$STORED:SERVER` is PostgreSQL's; for a key derived by scrypt it is
`SCRAM-SHA-256$scrypt:N:R:P:SALT$STORED:SERVER`. Earlier versions wrote `scrypt$N$R$P$SALT$DIGEST`.
Bytes are in base64. A configuration is checked without hashing.
"""

from __future__ import annotations

from typing import Final

import attrs

from broker.canonical_base64 import decode_base64, encode_base64
from broker.scram.key_derivation import (
    KEY_BYTES,
    PBKDF2,
    SCRYPT,
    KeyDerivation,
    format_cost,
    parse_cost,
)
from broker.scram.keys import ClientKeys, StoredKeys

MECHANISM: Final = "SCRAM-SHA-256"


@attrs.frozen
class StoredSecret:
    """Keys that check a secret, and the derivation that a client needs to prove it."""

    derivation: KeyDerivation
    keys: StoredKeys
    is_digest: bool = attrs.field(default=False, eq=False)
    """True for the earlier notation, whose digest is as good as the secret for a thief."""

    @classmethod
    def parse(cls, text: str) -> StoredSecret:
        """Raises `ValueError`, also for weak parameters; its text never shows the secret."""
        parts = text.split("$")
        if len(parts) == 6 and parts[0] == SCRYPT:
            derivation = KeyDerivation(
                SCRYPT, parse_cost(":".join(parts[1:4])), decode_base64(parts[4])
            )
            digest = decode_base64(parts[5])
            if not KEY_BYTES <= len(digest) <= 2 * KEY_BYTES:
                raise ValueError("its digest must have 32 to 64 bytes")
            # A longer output of scrypt begins with the shorter one.
            keys = ClientKeys.from_salted(digest[:KEY_BYTES]).stored
            return cls(derivation.check(), keys, True)
        if len(parts) != 3 or parts[0] != MECHANISM:
            raise ValueError(f"it does not have the form {MECHANISM}$ITERATIONS:SALT$STORED:SERVER")
        *cost, salt = parts[1].split(":")
        algorithm = cost.pop(0) if cost[:1] == [SCRYPT] else PBKDF2
        stored_key, _, server_key = parts[2].partition(":")
        derivation = KeyDerivation(algorithm, parse_cost(":".join(cost)), decode_base64(salt))
        found = StoredKeys(decode_base64(stored_key), decode_base64(server_key))
        if len(found.stored_key) != KEY_BYTES or len(found.server_key) != KEY_BYTES:
            raise ValueError(f"its keys must have {KEY_BYTES} bytes each")
        return cls(derivation.check(), found)

    def __str__(self) -> str:
        """Return the notation without a digest."""
        of = self.derivation
        cost = format_cost(of.cost)
        keys = ":".join(map(encode_base64, (self.keys.stored_key, self.keys.server_key)))
        if of.algorithm == SCRYPT:
            cost = f"{SCRYPT}:{cost}"
        return f"{MECHANISM}${cost}:{encode_base64(of.salt)}${keys}"
