"""Key pair of a node, in its data folder."""

from __future__ import annotations

from pathlib import Path

from broker.errors import LogUnavailable
from broker.event.origin import origin_has_key
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.batch_signer import BatchSigner

FILE_NAME = "node.key"


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


def find_signer(data: Path, origin: str) -> BatchSigner | None:
    """Return the signer of a log by the key of its node; None if they do not belong together.

    Raises `ConfigurationError`.
    """
    path = data / FILE_NAME
    if not path.exists():
        return None
    key = SigningKey.load(path)
    return BatchSigner(key, origin) if origin_has_key(origin, key.public.raw) else None
