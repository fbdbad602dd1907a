"""Key pair of a node, in its data folder."""

from __future__ import annotations

from pathlib import Path

from broker.errors import LogUnavailable
from broker.order_certificates.signing_key import SigningKey

FILE_NAME = "node.key"


def has_node_key(data: Path) -> bool:
    """Return True if a node with this data folder has signed events."""
    return (data / FILE_NAME).exists()


def load_node_key(data: Path) -> SigningKey:
    """Return the key of the node with this data folder; make one at its first start.

    Raises `ConfigurationError` for a file that is no key, `LogUnavailable` if none can be written.
    """
    path = data / FILE_NAME
    if path.exists():
        return SigningKey.load(path)
    key = SigningKey.generate()
    try:
        data.mkdir(parents=True, exist_ok=True)
        key.store(path)
    except OSError as error:
        raise LogUnavailable(
            f"the node's key {path} can not be written: {error.strerror}"
        ) from None
    return key
