"""Notation of stored secrets: `scrypt$n$r$p$salt$digest`, salt and digest in base64.

A configuration is checked without hashing.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

import attrs

#: Cheaper hashes of a stolen file could be searched for usual secrets.
LEAST_N: Final = 2**14
LEAST_R: Final = 8
#: Bytes of scrypt (128 * n * r). More would let one line of a file use all memory.
MAX_MEMORY: Final = 256 * 2**20


@attrs.frozen
class StoredSecret:
    """Cost (`n`, `r`, `p`), salt and digest of scrypt."""

    n: int
    r: int
    p: int
    salt: bytes = attrs.field(repr=False)
    digest: bytes = attrs.field(repr=False)

    @classmethod
    def parse(cls, text: str) -> StoredSecret:
        """The `ValueError` never shows the secret."""
        parts = text.split("$")
        if len(parts) != 6 or parts[0] != "scrypt":
            raise ValueError("it does not have the form scrypt$n$r$p$salt$digest")
        try:
            n, r, p = (int(part) for part in parts[1:4])
            salt, digest = (base64.b64decode(part, validate=True) for part in parts[4:])
        except (ValueError, binascii.Error):
            raise ValueError("one of its parts is not a number or not base64") from None
        if n < LEAST_N or r < LEAST_R:
            raise ValueError(
                f"its cost is too low: n is at least {LEAST_N}, and r {LEAST_R}; hash the secret "
                "again with xmlbroker config --hash-secret"
            )
        if n & (n - 1) or not 1 <= p <= 16 or 128 * n * r > MAX_MEMORY:
            raise ValueError("its cost is outside the range of scrypt or of this program")
        if not 16 <= len(salt) <= 64 or not 16 <= len(digest) <= 64:
            raise ValueError("its salt and digest must have 16 to 64 bytes each")
        return cls(n, r, p, salt, digest)

    def __str__(self) -> str:
        salt, digest = (base64.b64encode(part).decode() for part in (self.salt, self.digest))
        return f"scrypt${self.n}${self.r}${self.p}${salt}${digest}"
