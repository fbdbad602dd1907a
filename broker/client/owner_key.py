"""Key by which a client proves that its ClientId is its own.

A process with a state folder reads the key from there, or makes it. Another one derives it from the
secret of its account, or from the private key of its certificate: all processes with that have the
same key. Without any of them there is none, and nodes go by the account alone.
"""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from broker.errors import ConfigurationError
from broker.order_certificates.signing_key import SigningKey
from broker.private_files import open_private
from broker.scram.key_derivation import SCRYPT, KeyDerivation
from broker.wire.claim import Claim, ClaimedState

SEED_BYTES: Final = 32
#: Nodes have the public key, and could search for a short secret: n, r and p of scrypt.
_COST: Final = (2**14, 8, 1)
_SALT: Final = b"xmlbroker key of a client 1\0"


def load_seed(folder: Path, client_id: str) -> bytes:
    """Return the seed of a client's key in its existing state folder; make one at the first call.

    Raises `ConfigurationError`.
    """
    path = folder / f"{client_id}.key"
    try:
        with open(path, "a+b", opener=open_private) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read(2 * SEED_BYTES + 2).strip()
            if not text:
                text = os.urandom(SEED_BYTES).hex().encode()
                file.write(text + b"\n")
                file.flush()
                os.fsync(file.fileno())
        seed = bytes.fromhex(text.decode())
    except OSError as error:
        raise ConfigurationError(f"the key of {client_id} can not be stored: {error}") from None
    except ValueError:
        seed = b""
    if len(seed) != SEED_BYTES:
        raise ConfigurationError(
            f"{path} does not hold a key; remove it, and reset the client at its nodes"
        )
    return seed


def read_private_key(path: Path) -> str:
    """Return the private key in a PEM file, in hexadecimal. Raises `ConfigurationError`."""
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{path} holds no readable private key: {error}") from None
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()).hex()


class OwnerKey:
    """Maker of the claims of one process."""

    def __init__(
        self, client_id: str, incarnation: int, token: bytes, seed: bytes, secret: str
    ) -> None:
        """An empty `seed` is derived from the `secret`, if that is not empty."""
        self._client = (client_id, incarnation, token)
        self._seed = seed
        self._secret = secret
        self._key: SigningKey | None = None
        self._lock = threading.Lock()
        self._number = 0

    @property
    def is_ready(self) -> bool:
        """True also if there is nothing to make it from."""
        return self._key is not None or not (self._seed or self._secret)

    def prepare(self) -> None:
        """Make the key, in any thread. To derive it takes tens of milliseconds."""
        with self._lock:
            if self._key is None and (self._seed or self._secret):
                self._key = SigningKey(Ed25519PrivateKey.from_private_bytes(self._find_seed()))

    def make_claim(self, name: str, node: str) -> Claim | None:
        """Return the claim of a durable subscription at the node with this address.

        Unless the key is ready, it is derived first.
        """
        self.prepare()
        if self._key is None:
            return None
        self._number += 1
        state = ClaimedState(*self._client, name, node)
        return state.sign(self._key, self._number, is_derived=not self._seed)

    def _find_seed(self) -> bytes:
        salt = _SALT + self._client[0].encode()
        return self._seed or KeyDerivation(SCRYPT, _COST, salt).derive(self._secret.encode())
