"""Keys of SCRAM: those of a client, and those that a node stores."""

from __future__ import annotations

import hashlib
import hmac

import attrs


def sign(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")


@attrs.frozen
class StoredKeys:
    """Keys to check a client's proof, and to prove the node. They do not allow to log in."""

    stored_key: bytes = attrs.field(repr=False)
    server_key: bytes = attrs.field(repr=False)

    def is_proof(self, proof: bytes, auth_message: bytes) -> bool:
        """Return True if the client that made `proof` has the secret."""
        signature = sign(self.stored_key, auth_message)
        if len(proof) != len(signature):
            return False
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        return hmac.compare_digest(hashlib.sha256(client_key).digest(), self.stored_key)


@attrs.frozen
class ClientKeys:
    """Keys of a client, derived once from the secret."""

    client_key: bytes = attrs.field(repr=False)
    stored: StoredKeys

    @classmethod
    def from_salted(cls, salted: bytes) -> ClientKeys:
        """`salted` is the key that `KeyDerivation.derive` returns."""
        client_key = sign(salted, b"Client Key")
        stored_key = hashlib.sha256(client_key).digest()
        return cls(client_key, StoredKeys(stored_key, sign(salted, b"Server Key")))

    def prove(self, auth_message: bytes) -> bytes:
        signature = sign(self.stored.stored_key, auth_message)
        return bytes(a ^ b for a, b in zip(self.client_key, signature, strict=True))
