"""Log messages limited by rate.

The first message of a place and kind is written at once, repetitions ever less often with their
count.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

import attrs

#: Seconds between two lines of an entry, doubled after each.
MIN_INTERVAL: Final = 60.0
MAX_INTERVAL: Final = 3600.0
#: Peers could fill the memory. Further messages are only counted.
MAX_ENTRIES: Final = 256
#: The text may come from a peer.
MAX_TEXT: Final = 400


@attrs.define
class _Entry:
    text: str
    first_at: float
    reported_at: float
    last_at: float
    interval: float = MIN_INTERVAL
    count: int = 1


class RateLimitedLog:
    def __init__(self, write_line: Callable[[str], object], now: Callable[[], float]) -> None:
        """`now` returns monotonic seconds."""
        self._write_line = write_line
        self._now = now
        self._entries: OrderedDict[tuple[Hashable, Hashable], _Entry] = OrderedDict()
        self.suppressed = 0
        """Messages without room for an entry."""

    def report(self, place: Hashable, kind: Hashable, text: str) -> None:
        """Write a message if its interval is over, else count it.

        A changed text waits for the minimum interval only.
        """
        now, text = self._now(), printable_line(text)
        known = self._entries.get((place, kind))
        if known is None or now - known.last_at >= 2 * MAX_INTERVAL:
            self._add_entry((place, kind), _Entry(text, now, now, now))
            return
        known.count += 1
        known.last_at = now
        self._entries.move_to_end((place, kind))
        other = text != known.text
        if now - known.reported_at < (MIN_INTERVAL if other else known.interval):
            return
        self._write_line(f"{text} ({known.count} times in {_format_span(now - known.first_at)})")
        known.text, known.reported_at = text, now
        known.interval = MIN_INTERVAL if other else min(MAX_INTERVAL, 2 * known.interval)

    def clear(self, place: Hashable) -> None:
        """Write the next message of a place at once."""
        for key in [key for key in self._entries if key[0] == place]:
            del self._entries[key]

    def _add_entry(self, key: tuple[Hashable, Hashable], trouble: _Entry) -> None:
        self._entries.pop(key, None)
        if len(self._entries) >= MAX_ENTRIES:
            oldest = next(iter(self._entries))
            if trouble.first_at - self._entries[oldest].last_at < MAX_INTERVAL:
                self.suppressed += 1
                return
            del self._entries[oldest]
        self._entries[key] = trouble
        self._write_line(trouble.text)


def printable_line(text: str) -> str:
    """Return one line without control characters, cut to `MAX_TEXT` characters."""
    line = "".join(each if each.isprintable() else "?" for each in text[:MAX_TEXT])
    return line if len(text) <= MAX_TEXT else line + "..."


def _format_span(seconds: float) -> str:
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
