"""Names of origins, each unique to one log for life.

A name begins with the log's start. So a node can tell a new log, of which no event is missing, from
an old one. The rest is a hash of the start and of the node's public key: nobody else can sign
events of this origin. Names of earlier versions have random digits there.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from hashlib import sha256

#: Hexadecimal seconds since 1970, and a random part or a hash.
_TIME_DIGITS = 8
_RANDOM_DIGITS = 16
_KEY_DIGITS = 40
_DOMAIN = b"xmlbroker origin 1\0"
#: Older logs have the random digits alone.
ORIGIN = re.compile(
    f"[0-9a-f]{{{_RANDOM_DIGITS}}}|[0-9a-f]{{{_TIME_DIGITS + _RANDOM_DIGITS}}}"
    f"|[0-9a-f]{{{_TIME_DIGITS + _KEY_DIGITS}}}"
)


def new_origin(now_ms: int, key: bytes | None = None) -> str:
    """Return a name for a log that starts at `now_ms` (ms since 1970).

    `key` is the node's public key; without one, the name is random.
    """
    start = f"{now_ms // 1000 & 0xFFFFFFFF:0{_TIME_DIGITS}x}"
    if key is None:
        return start + os.urandom(_RANDOM_DIGITS // 2).hex()
    return start + _hash_of_key(start, key)


def origin_start_ms(origin: str) -> int:
    """Return ms since 1970, by the node's clock; 0 for a name without time."""
    if len(origin) == _RANDOM_DIGITS or not ORIGIN.fullmatch(origin):
        return 0
    return int(origin[:_TIME_DIGITS], 16) * 1000


def is_signed_origin(origin: str) -> bool:
    """Return True if the name belongs to a key: all events of the log are signed."""
    return len(origin) == _TIME_DIGITS + _KEY_DIGITS and ORIGIN.fullmatch(origin) is not None


@lru_cache(maxsize=1024)
def origin_has_key(origin: str, key: bytes) -> bool:
    """Return True if the name belongs to this public key."""
    start = origin[:_TIME_DIGITS]
    return is_signed_origin(origin) and origin == start + _hash_of_key(start, key)


def _hash_of_key(start: str, key: bytes) -> str:
    return sha256(_DOMAIN + start.encode() + key).hexdigest()[:_KEY_DIGITS]
