"""Names of origins, each unique to one log for life.

A name has 24 hexadecimal digits: 8 for the log's start, and 16. So a node can tell a new log, of
which no event is missing, from an old one. In the name of a signed log the first bit is set, and
the 16 digits are a hash of the start and of the node's public key: nobody else can sign its events.
Names of earlier versions have random digits there. Nodes of earlier versions know names of this
length only; a signed log is a new one for them.

A hash of 64 bits is short. Each guess of another key costs a call of scrypt, which needs 2 MiB.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Final

_TIME_DIGITS = 8
_RANDOM_DIGITS = 16
_DOMAIN = b"xmlbroker origin 1\0"
#: Seconds: 2020, from which signed logs count, for 68 years.
_SIGNED_SINCE = 1_577_836_800
_SIGNED = 1 << 31
#: Of scrypt: some milliseconds, once for each log and key.
_COST_N, _COST_R = 2**11, 8
_MOST_KEYS: Final = 4_096
#: By origin; the oldest is replaced.
_keys: Final[dict[str, bytes]] = {}
#: Older logs have the random digits alone.
ORIGIN = re.compile(f"[0-9a-f]{{{_RANDOM_DIGITS}}}|[0-9a-f]{{{_TIME_DIGITS + _RANDOM_DIGITS}}}")


def new_origin(now_ms: int, key: bytes | None = None) -> str:
    """Return a name for a log that starts at `now_ms` (ms since 1970).

    `key` is the node's public key; without one, the name is random.
    """
    seconds = now_ms // 1000
    if key is None:
        return f"{seconds & _SIGNED - 1:0{_TIME_DIGITS}x}{os.urandom(_RANDOM_DIGITS // 2).hex()}"
    start = f"{_SIGNED | max(0, seconds - _SIGNED_SINCE) & _SIGNED - 1:0{_TIME_DIGITS}x}"
    return start + _hash_of_key(start, key)


def origin_start_ms(origin: str) -> int:
    """Return ms since 1970, by the node's clock; 0 for a name without time."""
    if len(origin) != _TIME_DIGITS + _RANDOM_DIGITS or not ORIGIN.fullmatch(origin):
        return 0
    start = int(origin[:_TIME_DIGITS], 16)
    return ((start ^ _SIGNED) + _SIGNED_SINCE if start & _SIGNED else start) * 1000


def is_signed_origin(origin: str) -> bool:
    """Return True if the name belongs to a key: all events of the log are signed."""
    return (
        len(origin) == _TIME_DIGITS + _RANDOM_DIGITS
        and origin >= "8"
        and ORIGIN.fullmatch(origin) is not None
    )


def origin_has_key(origin: str, key: bytes) -> bool:
    """Return True if the name belongs to this public key.

    Only one key belongs to a name. So other keys cost nothing once it is known.
    """
    known = _keys.get(origin)
    if known is not None:
        return known == key
    start = origin[:_TIME_DIGITS]
    if not is_signed_origin(origin) or origin != start + _hash_of_key(start, key):
        return False
    if len(_keys) >= _MOST_KEYS:
        del _keys[next(iter(_keys))]
    _keys[origin] = key
    return True


def is_key_known(origin: str) -> bool:
    """Return True if `origin_has_key` takes no milliseconds for this name."""
    return origin in _keys or not is_signed_origin(origin)


def _hash_of_key(start: str, key: bytes) -> str:
    digest = hashlib.scrypt(
        key,
        salt=_DOMAIN + start.encode(),
        n=_COST_N,
        r=_COST_R,
        p=1,
        dklen=_RANDOM_DIGITS // 2,
    )
    return digest.hex()
