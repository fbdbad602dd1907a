"""Ed25519 keys of nodes: a private one in a PEM file, and pinned public ones as text."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from broker.canonical_base64 import decode_base64, encode_base64
from broker.errors import ConfigurationError

#: Of a file.
MOST_KEY_BYTES = 16 << 10


class PinnedKey:
    """The public key of a node, of which the bytes are known in advance."""

    def __init__(self, raw: bytes) -> None:
        """`raw` are 32 bytes. Raises ValueError."""
        self._key = Ed25519PublicKey.from_public_bytes(raw)
        self.raw = raw

    @classmethod
    def parse(cls, text: str) -> PinnedKey:
        """Raises ValueError for other text than `str` returns."""
        return cls(decode_base64(text))

    def has_signed(self, signature: bytes, data: bytes) -> bool:
        try:
            self._key.verify(signature, data)
        except InvalidSignature:
            return False
        return True

    def __str__(self) -> str:
        return encode_base64(self.raw)


def has_signed(key: bytes, signature: bytes, data: bytes) -> bool:
    """Return whether a public key of unknown origin fits to a signature."""
    try:
        return PinnedKey(key).has_signed(signature, data)
    except ValueError:
        return False


#: By site: several while a site changes its key.
PinnedKeys: TypeAlias = Mapping[str, Sequence[PinnedKey]]


class SigningKey:
    """The private key of a node."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = PinnedKey(key.public_key().public_bytes_raw())

    @classmethod
    def generate(cls) -> SigningKey:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path) -> SigningKey:
        """Raises `ConfigurationError`."""
        try:
            with open(path, "rb") as file:
                key = load_pem_private_key(file.read(MOST_KEY_BYTES), None)
        except OSError as error:
            raise ConfigurationError(f"the key {path} can not be read: {error.strerror}") from None
        except (ValueError, TypeError):
            raise ConfigurationError(f"{path} is not an unencrypted private key in PEM") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigurationError(f"{path} is no key for Ed25519")
        return cls(key)

    def store(self, path: Path) -> None:
        """Write a new file that only its owner can read. Raises OSError."""
        pem = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            file.write(pem)

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)
