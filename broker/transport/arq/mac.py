"""The tag at the end of each datagram: a checksum, and with a key a proof of who wrote it (T41)."""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest

TAG_BYTES = 8

#: The seal of what is sent before there is a key: it finds damage, and proves nothing.
_NO_KEY = b""


class Mac:
    """Keyed BLAKE2b, cut to 64 bits: damage passes once in 2**64, and so does a guess.

    Cutting is safe here: a forger has one try for each datagram, and a good one is worth one
    datagram. It hides nothing, and does not hold against one who can read the path while the key
    is agreed upon.
    """

    def __init__(self, key: bytes = _NO_KEY) -> None:
        # Begun once: taking the key in costs as much as 128 bytes of a datagram.
        self._keyed_state = blake2b(key=key, digest_size=TAG_BYTES, person=b"xmlbroker-tag")

    def add_tag(self, contents: bytes) -> bytes:
        """The contents with their tag."""
        state = self._keyed_state.copy()
        state.update(contents)
        return contents + state.digest()

    def verify(self, datagram: bytes) -> bool:
        """Whether a datagram is as somebody with the key wrote it."""
        state = self._keyed_state.copy()
        state.update(memoryview(datagram)[:-TAG_BYTES])
        return compare_digest(state.digest(), datagram[-TAG_BYTES:])


def derive_connection_key(
    client: int, server: int, client_nonce: bytes, server_nonce: bytes
) -> bytes:
    """The key of a connection, out of what both ends drew for it."""
    ids = client.to_bytes(8, "big") + server.to_bytes(8, "big")
    return blake2b(
        ids + client_nonce + server_nonce, digest_size=32, person=b"xmlbroker-conn"
    ).digest()


def derive_group_key(secret: bytes) -> bytes:
    """The key of a group, out of a secret of any length; no secret gives no key."""
    if not secret:
        return _NO_KEY
    return blake2b(secret, digest_size=32, person=b"xmlbroker-group").digest()
