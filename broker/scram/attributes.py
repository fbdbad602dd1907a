"""Attributes of SCRAM messages, such as `r=NONCE,s=SALT,i=100000`."""

from __future__ import annotations

from typing import Final

from broker.canonical_base64 import decode_base64, encode_base64
from broker.errors import ProtocolError

#: Bytes of a message.
MAX_MESSAGE: Final = 1024
MAX_NONCE: Final = 128


def decode_text(data: bytes) -> str:
    """Raises `ProtocolError`."""
    if len(data) > MAX_MESSAGE or not data.isascii():
        raise ProtocolError("a message of the login is not a short text in ASCII")
    return data.decode("ascii")


def parse_attributes(text: str, required: str) -> dict[str, str]:
    """Return the attributes; the first are `required`, in their order. Raises `ProtocolError`."""
    parts = text.split(",")
    names = "".join(part[:1] for part in parts)
    if not names.startswith(required) or not all(part[1:2] == "=" for part in parts):
        raise ProtocolError(
            f"a message of the login does not begin with {','.join(f'{n}=' for n in required)}"
        )
    # An extension `m` is mandatory, and this program has none.
    if "m" in names or len(set(names)) != len(names):
        raise ProtocolError("a message of the login has an unknown or double attribute")
    return {part[0]: part[2:] for part in parts}


def check_nonce(nonce: str) -> str:
    """Raises `ProtocolError`."""
    if not 16 <= len(nonce) <= MAX_NONCE or not nonce.isprintable():
        raise ProtocolError(f"a nonce of the login has 16 to {MAX_NONCE} printable characters")
    return nonce


def decode_base64_attribute(text: str) -> bytes:
    """Raises `ProtocolError`."""
    try:
        return decode_base64(text)
    except ValueError:
        raise ProtocolError("a message of the login has wrong base64") from None


def encode_binding(header: str, binding_data: bytes) -> str:
    """Return the value of `c`: the header that the client sent, and the channel's data."""
    return encode_base64(header.encode() + binding_data)
