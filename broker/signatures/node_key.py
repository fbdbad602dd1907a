"""Key pair of a node, in its data folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from broker.errors import ConfigurationError, LogUnavailable
from broker.event.origin import origin_has_key
from broker.order_certificates.signing_key import PinnedKey, PinnedKeys, SigningKey
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


def read_public_keys(
    named: Iterable[tuple[str, str]], node: str, own: SigningKey | None
) -> PinnedKeys:
    """Return the keys of `network.public_keys` by name.

    `node` is the name of the node that has the key `own`. Raises `ConfigurationError` if none of
    the keys under its name is this one.
    """
    keys: dict[str, list[PinnedKey]] = {}
    for name, text in named:
        keys.setdefault(name, []).append(PinnedKey.parse(text))
    if node in keys and (own is None or own.public.raw not in [each.raw for each in keys[node]]):
        public = "none" if own is None else own.public
        raise ConfigurationError(
            f"network.public_keys has another key for {node}: its own one, by node.key, is {public}"
        )
    return keys


def find_signer(data: Path, origin: str) -> BatchSigner | None:
    """Return the signer of a log by the key of its node; None if they do not belong together.

    Raises `ConfigurationError`.
    """
    path = data / FILE_NAME
    if not path.exists():
        return None
    key = SigningKey.load(path)
    return BatchSigner(key, origin) if origin_has_key(origin, key.public.raw) else None
