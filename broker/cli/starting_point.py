"""Start of a subscription and end of a replay, as options write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from broker.client.received import ALL, NEW, STORED, Start, since, since_time
from broker.event.place import Position

#: Weeks, days, hours, minutes, seconds in ms.
_UNITS: Final = (604_800_000, 86_400_000, 3_600_000, 60_000, 1_000)
_NUMBER: Final = r"(?:([0-9]{1,9}(?:\.[0-9]{1,3})?)%s)?"
_AGO: Final = re.compile("".join(_NUMBER % unit for unit in "wdhms") + r"(?:[ -]ago)?", re.ASCII)


def parse_start(text: str) -> Start:
    """Parse `new`, `all`, `stored`, a time or a position.

    A time is ISO 8601, by default in UTC, or ms since 1970. Raises ValueError.
    """
    words = {"new": NEW, "all": ALL, "stored": STORED}
    if text in words:
        return words[text]
    found: Position | int | None = _time(text)
    if found is None:
        found = _position(text)
    if found is None:
        raise ValueError(
            "give new, all, stored, a time such as 2026-11-20T12:00:00Z or ms since 1970, "
            "or a position such as ORIGIN:EPOCH:OFFSET"
        )
    return since_time(found) if isinstance(found, int) else since(found)


def parse_end(text: str, now: int) -> Position | int:
    """Parse a position, or a time in ms since 1970.

    Also accepts `90s`, `15m`, `1h30m`, `7d ago` before `now`. Raises ValueError.
    """
    ago = _AGO.fullmatch(text.strip())
    if ago and any(ago.groups()):
        spans = zip(ago.groups(), _UNITS, strict=True)
        before = now - sum(round(float(span) * unit) for span, unit in spans if span)
        if before < 0:
            raise ValueError("it is before 1970")
        return before
    found: Position | int | None = _time(text)
    if found is None:
        found = _position(text)
    if found is None:
        raise ValueError(
            "give a time such as 2026-11-20T12:00:00Z or ms since 1970, a time ago such "
            "as 90s, 1h30m or 7d, or a position such as ORIGIN:EPOCH:OFFSET"
        )
    return found


def _time(text: str) -> int | None:
    if re.fullmatch(r"[0-9]{1,15}", text, re.ASCII):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    milliseconds = round(moment.timestamp() * 1000)
    if milliseconds < 0:
        raise ValueError("it is before 1970")
    return milliseconds


def _position(text: str) -> Position | None:
    try:
        return Position.parse(text)
    except (ValueError, TypeError):
        return None
