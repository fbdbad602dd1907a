"""Short statements that a node signs: of itself, of its cluster, of logs that are gone, of pages,
and of the log of a site."""

from __future__ import annotations

import struct
from typing import Final

from broker.errors import BadSignature
from broker.order_certificates.signing_key import SigningKey, has_signed

#: Each domain ends with a zero byte, and no statement of one is valid in another.
NODE_DOMAIN: Final = b"xmlbroker descriptor of a node 1\0"
MEMBERSHIP_DOMAIN: Final = b"xmlbroker membership of an origin 1\0"
GONE_DOMAIN: Final = b"xmlbroker gone origin 1\0"
SITE_DOMAIN: Final = b"xmlbroker site of a group 1\0"
PAGE_DOMAIN: Final = b"xmlbroker page of a node 1\0"
_LENGTH: Final = struct.Struct(">I")


def sign_statement(key: SigningKey, domain: bytes, *parts: bytes) -> bytes:
    """Return the signature, 64 bytes."""
    return key.sign(_join(domain, parts))


def check_statement(key: bytes, signature: bytes, domain: bytes, *parts: bytes) -> None:
    """Raises `BadSignature`. `key` is a public one, 32 bytes."""
    if not has_signed(key, signature, _join(domain, parts)):
        raise BadSignature("the signature of a statement does not belong to its key")


def _join(domain: bytes, parts: tuple[bytes, ...]) -> bytes:
    return domain + b"".join([_LENGTH.pack(len(each)) + each for each in parts])
