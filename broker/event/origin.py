"""Names of origins: each log has one for as long as it is there, and no other log ever has it.

A name begins with the time when its log did. So a node that hears of a log for the first time can
tell whether that is new, and it lacks nothing of it yet, or old.
"""

from __future__ import annotations

import os
import re

#: Hexadecimal digits: the seconds since 1970, and what nobody else draws in the same second.
_TIME = 8
_DRAWN = 16
#: What a name looks like. Logs of older versions have the drawn digits alone.
ORIGIN = re.compile(f"[0-9a-f]{{{_DRAWN}}}|[0-9a-f]{{{_TIME + _DRAWN}}}")


def new_origin(now_ms: int) -> str:
    """The name of a log that begins now, in ms since 1970."""
    return f"{now_ms // 1000 & 0xFFFFFFFF:0{_TIME}x}{os.urandom(_DRAWN // 2).hex()}"


def born(origin: str) -> int:
    """When the log of this name began, in ms since 1970, by the clock that its node had then; 0 if
    the name does not tell."""
    if len(origin) != _TIME + _DRAWN or not ORIGIN.fullmatch(origin):
        return 0
    return int(origin[:_TIME], 16) * 1000
