"""Base64 with one text for each value: other texts of the same bytes are refused."""

from __future__ import annotations

import base64
import binascii


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def decode_base64(text: str) -> bytes:
    """Raises `ValueError` for other text than `encode_base64` returns."""
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"it is not base64: {error}") from None
    # The last character may have bits that belong to no byte.
    if encode_base64(data) != text:
        raise ValueError("it is not base64: its last bits belong to no byte")
    return data
