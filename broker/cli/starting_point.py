"""Where a subscription begins, as `--from` writes it."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from broker.client.received import ALL, NEW, STORED, Start, since, since_time
from broker.event.place import Position


def parse_start(text: str) -> Start:
    """`new`, `all`, `stored`, a time (ISO 8601 in UTC unless it says otherwise, or ms since 1970),
    or a position as `sub` prints places; ValueError for anything else."""
    words = {"new": NEW, "all": ALL, "stored": STORED}
    if text in words:
        return words[text]
    if re.fullmatch(r"[0-9]{1,15}", text, re.ASCII):
        return since_time(int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return since(_position(text))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    milliseconds = round(moment.timestamp() * 1000)
    if milliseconds < 0:
        raise ValueError("it is before 1970")
    return since_time(milliseconds)


def _position(text: str) -> Position:
    try:
        return Position.parse(text)
    except (ValueError, TypeError):
        raise ValueError(
            "it is none of new, all, stored, a time such as 2026-11-20T12:00:00Z or ms since 1970, "
            "or a position such as ORIGIN:EPOCH:OFFSET"
        ) from None
