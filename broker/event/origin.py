"""Names of origins, each unique to one log for life.

A name begins with the log's start. So a node can tell a new log, of which no event is missing, from
an old one.
"""

from __future__ import annotations

import os
import re

#: Hexadecimal seconds since 1970, and a random part.
_TIME_DIGITS = 8
_RANDOM_DIGITS = 16
#: Older logs have the random digits alone.
ORIGIN = re.compile(f"[0-9a-f]{{{_RANDOM_DIGITS}}}|[0-9a-f]{{{_TIME_DIGITS + _RANDOM_DIGITS}}}")


def new_origin(now_ms: int) -> str:
    """Return a name for a log that starts at `now_ms` (ms since 1970)."""
    return f"{now_ms // 1000 & 0xFFFFFFFF:0{_TIME_DIGITS}x}{os.urandom(_RANDOM_DIGITS // 2).hex()}"


def origin_start_ms(origin: str) -> int:
    """Return ms since 1970, by the node's clock; 0 for a name without time."""
    if len(origin) != _TIME_DIGITS + _RANDOM_DIGITS or not ORIGIN.fullmatch(origin):
        return 0
    return int(origin[:_TIME_DIGITS], 16) * 1000
