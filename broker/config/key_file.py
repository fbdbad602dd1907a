"""The secret that nodes share, in the file `network.key_file`."""

from __future__ import annotations

from pathlib import Path

from broker.errors import ConfigurationError

#: Bytes: a recorded handshake must not allow to guess the key.
SHORTEST_KEY = 16


def read_key(path: Path) -> bytes:
    """Raises `ConfigurationError`."""
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise ConfigurationError(f"network.key_file {path} can not be read: {error}") from None
    if len(key) < SHORTEST_KEY:
        raise ConfigurationError(
            f"network.key_file {path}: a key has at least {SHORTEST_KEY} bytes"
        )
    return key
