"""Stored secrets by account name, with false ones for unknown names."""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path
from typing import Final, TypeAlias

from broker.config.stored_secret import StoredSecret
from broker.errors import ConfigurationError
from broker.identity.accounts import Accounts
from broker.identity.secret import ITERATIONS, SALT_BYTES
from broker.scram.key_derivation import PBKDF2, KeyDerivation
from broker.scram.keys import StoredKeys

KEY_FILE: Final = "login.key"
_KEY_BYTES: Final = 32

#: Algorithm, cost and length of the salt of each secret of an account.
Shape: TypeAlias = tuple[tuple[str, tuple[int, ...], int], ...]

_DEFAULT_SHAPE: Final[Shape] = ((PBKDF2, (ITERATIONS,), SALT_BYTES),)


class SecretBook:
    """Stored secrets by account name.

    An unknown name has false secrets, derived from the name and the node's key: they are the same
    at each login, also after a restart, and look like those of some account.
    """

    def __init__(self, accounts: Accounts, key: bytes) -> None:
        self._accounts = accounts
        self._key = key
        self._shapes_of: object = None
        self._shapes: tuple[Shape, ...] = ()

    def find(self, name: str) -> tuple[StoredSecret, ...]:
        """Return one or more secrets. It costs as much for an unknown name as for an account."""
        account = self._accounts.find(name)
        shape = max(self._find_shapes(), key=lambda each: self._digest(f"{name} {each}"))
        false = tuple(self._make_false(name, number, *each) for number, each in enumerate(shape))
        return account.secrets if account is not None and account.secrets else false

    def _find_shapes(self) -> tuple[Shape, ...]:
        generation = self._accounts.by_name
        if self._shapes_of is not generation:
            found = {
                tuple(
                    (each.derivation.algorithm, each.derivation.cost, len(each.derivation.salt))
                    for each in account.secrets
                )
                for account in generation.values()
            } - {()}
            self._shapes = tuple(sorted(found)) or (_DEFAULT_SHAPE,)
            self._shapes_of = generation
        return self._shapes

    def _make_false(
        self, name: str, number: int, algorithm: str, cost: tuple[int, ...], salt_bytes: int
    ) -> StoredSecret:
        salt = self._digest(f"{name} salt {number}")[:salt_bytes]
        stored, server = (self._digest(f"{name} {use} {number}") for use in ("stored", "server"))
        keys = StoredKeys(stored[:_KEY_BYTES], server[:_KEY_BYTES])
        return StoredSecret(KeyDerivation(algorithm, cost, salt), keys)

    def _digest(self, text: str) -> bytes:
        """Return 64 bytes, the longest salt."""
        return hmac.digest(self._key, text.encode("utf-8", "replace"), hashlib.sha512)


def load_login_key(folder: Path) -> bytes:
    """Return the node's key for false salts; the first call makes its file.

    Raises `ConfigurationError`.
    """
    path = folder / KEY_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            pass
        else:
            with open(descriptor, "wb") as file:
                file.write(os.urandom(_KEY_BYTES))
        key = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} can not be read or made: {error.strerror}") from None
    if len(key) != _KEY_BYTES:
        raise ConfigurationError(f"{path} does not have {_KEY_BYTES} bytes: delete it")
    return key
