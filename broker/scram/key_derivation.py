"""Derivation of a key from a secret, by PBKDF2 or scrypt."""

from __future__ import annotations

import hashlib
from typing import Final

import attrs

from broker.canonical_base64 import decode_base64, encode_base64

PBKDF2: Final = "pbkdf2"
SCRYPT: Final = "scrypt"
KEY_BYTES: Final = 32
#: A stolen hash with fewer is searched too fast.
LEAST_ITERATIONS: Final = 100_000
LEAST_N: Final = 2**14
LEAST_R: Final = 8
#: More would keep a client busy for seconds.
MOST_ITERATIONS: Final = 2_000_000
#: Bytes that scrypt fills (128 * n * r * p). More would let one line of a file, or a node, use all
#: memory or seconds.
MOST_FILLED: Final = 256 * 2**20
LEAST_SALT: Final = 16
MOST_SALT: Final = 64


@attrs.frozen
class KeyDerivation:
    """Algorithm with its cost, `(iterations,)` or `(n, r, p)`, and salt."""

    algorithm: str
    cost: tuple[int, ...]
    salt: bytes = attrs.field(repr=False)

    def check(self) -> KeyDerivation:
        """Raise `ValueError` for parameters that are weak, or beyond the bounds of a client."""
        if self.algorithm == PBKDF2 and len(self.cost) == 1:
            if not LEAST_ITERATIONS <= self.cost[0] <= MOST_ITERATIONS:
                raise ValueError(
                    f"its iterations must be from {LEAST_ITERATIONS} to {MOST_ITERATIONS}"
                )
        elif self.algorithm == SCRYPT and len(self.cost) == 3:
            n, r, p = self.cost
            if n < LEAST_N or r < LEAST_R:
                raise ValueError(
                    f"its cost is too low: n is at least {LEAST_N}, and r {LEAST_R}; hash the "
                    "secret again with xmlbroker config --hash-secret"
                )
            if n & (n - 1) or p < 1 or 128 * n * r * p > MOST_FILLED:
                raise ValueError("its cost is outside the range of scrypt or of this program")
        else:
            raise ValueError("its algorithm is not one of pbkdf2 and scrypt")
        if not LEAST_SALT <= len(self.salt) <= MOST_SALT:
            raise ValueError(f"its salt must have {LEAST_SALT} to {MOST_SALT} bytes")
        return self

    def derive(self, secret: bytes) -> bytes:
        """Return 32 bytes. It takes tens of milliseconds: call it in a thread."""
        if self.algorithm == PBKDF2:
            return hashlib.pbkdf2_hmac("sha256", secret, self.salt, self.cost[0], KEY_BYTES)
        n, r, p = self.cost
        # OpenSSL's own limit is too small for n = 2**15; twice the need is enough for any cost.
        memory = 2 * 128 * r * (n + p + 2)
        return hashlib.scrypt(secret, salt=self.salt, n=n, r=r, p=p, maxmem=memory, dklen=KEY_BYTES)

    def to_attributes(self) -> str:
        """Return the attributes of a server-first message: those of the RFC, and `k` for scrypt."""
        salt = encode_base64(self.salt)
        if self.algorithm == PBKDF2:
            return f"s={salt},i={self.cost[0]}"
        return f"s={salt},i={self.cost[0]},k={SCRYPT}:{format_cost(self.cost)}"

    @classmethod
    def from_attributes(cls, salt: str, iterations: str, extension: str | None) -> KeyDerivation:
        """`extension` is the value of `k`. Raises `ValueError`, also for weak parameters."""
        if extension is None:
            return cls(PBKDF2, parse_cost(iterations), decode_base64(salt)).check()
        algorithm, _, cost = extension.partition(":")
        return cls(algorithm, parse_cost(cost), decode_base64(salt)).check()


def format_cost(cost: tuple[int, ...]) -> str:
    return ":".join(map(str, cost))


def parse_cost(text: str) -> tuple[int, ...]:
    """Raises `ValueError`."""
    parts = text.split(":")
    if not all(part.isascii() and part.isdigit() and len(part) <= 10 for part in parts):
        raise ValueError("one of its parts is not a number or not base64")
    return tuple(map(int, parts))
