"""Ranges of the events' own times."""

from __future__ import annotations

from typing import Final, TypeAlias

#: From the first up to before the second, ms since 1970; 0: no such bound.
EventTimes: TypeAlias = tuple[int, int]

#: Events without a time of their own are in this range only.
ANY_TIME: Final[EventTimes] = (0, 0)


def is_within(time: int | None, times: EventTimes) -> bool:
    if times == ANY_TIME:
        return True
    begin, end = times
    return time is not None and begin <= time and (not end or time < end)


def is_empty_range(times: EventTimes) -> bool:
    """Return True if no time can be in the range."""
    begin, end = times
    return bool(end) and begin >= end
