"""The tag at the end of each datagram: a checksum, and with a key an authentication tag (T41)."""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest

TAG_BYTES = 8

#: The tag detects damage, and authenticates nothing.
_NO_KEY = b""


class Mac:
    """The tag at the end of each datagram of a group: keyed BLAKE2b, by default of 64 bits (T41).

    Truncation is safe: a forger has one try for each datagram, and gains one datagram. The tag does
    not encrypt. All members share the key, so a tag proves membership only, and a recorded datagram
    has a valid one. `broker.transport.arq.link_mac` has the tags of links.
    """

    replayed = 0
    binding = b""

    def __init__(self, key: bytes = _NO_KEY, *, tag_bytes: int = TAG_BYTES) -> None:
        self.overhead = tag_bytes
        # Absorbing the key costs as much as 128 bytes of a datagram.
        self._keyed_state = blake2b(key=key, digest_size=tag_bytes, person=b"xmlbroker-tag")

    def add_tag(self, contents: bytes) -> bytes:
        state = self._keyed_state.copy()
        state.update(contents)
        return contents + state.digest()

    def remove_tag(self, datagram: bytes) -> bytes | None:
        """Return the contents, or None for a wrong tag."""
        # A copy of a datagram costs less than a memoryview.
        contents = datagram[: -self.overhead]
        state = self._keyed_state.copy()
        state.update(contents)
        return contents if compare_digest(state.digest(), datagram[-self.overhead :]) else None

    def rotate(self, now: float) -> None:
        """Do nothing: all members have one key."""


def derive_connection_key(
    client: int, server: int, client_nonce: bytes, server_nonce: bytes
) -> bytes:
    ids = client.to_bytes(8, "big") + server.to_bytes(8, "big")
    return blake2b(
        ids + client_nonce + server_nonce, digest_size=32, person=b"xmlbroker-conn"
    ).digest()


def derive_group_key(secret: bytes) -> bytes:
    """Return a group's key; an empty secret gives none."""
    if not secret:
        return _NO_KEY
    return blake2b(secret, digest_size=32, person=b"xmlbroker-group").digest()


def derive_layer_key(secret: bytes) -> bytes:
    """Return the key of a `MacLayer`; an empty secret gives none."""
    if not secret:
        return _NO_KEY
    return blake2b(secret, digest_size=32, person=b"xmlbroker-layer").digest()
