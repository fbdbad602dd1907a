"""Names of origins, each unique to one log for life.

A name begins with the start time of its log. So a node can tell a new log, of which no event is
missing, from an old one.
"""

from __future__ import annotations

import os
import re

#: Hexadecimal digits: the seconds since 1970, and a random part.
_TIME_DIGITS = 8
_RANDOM_DIGITS = 16
#: Logs of older versions have the random digits alone.
ORIGIN = re.compile(f"[0-9a-f]{{{_RANDOM_DIGITS}}}|[0-9a-f]{{{_TIME_DIGITS + _RANDOM_DIGITS}}}")


def new_origin(now_ms: int) -> str:
    """Return a name for a log that starts at `now_ms` (ms since 1970)."""
    return f"{now_ms // 1000 & 0xFFFFFFFF:0{_TIME_DIGITS}x}{os.urandom(_RANDOM_DIGITS // 2).hex()}"


def origin_start_ms(origin: str) -> int:
    """Return the start of the log in ms since 1970, by its node's clock; 0 if the name has no
    time."""
    if len(origin) != _TIME_DIGITS + _RANDOM_DIGITS or not ORIGIN.fullmatch(origin):
        return 0
    return int(origin[:_TIME_DIGITS], 16) * 1000
