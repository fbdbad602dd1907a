"""Delay of the next event: by a rate, or by the events' own times (N5, Q3).

Sans-I/O, in seconds.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from lxml import etree

#: A time that falls by more seconds begins another recording.
RECORDING_RESET: Final = 6 * 3600.0

#: Seconds of lateness that a rate catches up.
MAX_CATCH_UP: Final = 0.1

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FEED_TIME = re.compile(r"([0-3][0-9])([0-2][0-9])([0-5][0-9])([0-5][0-9])", re.ASCII)


def parse_time(text: str) -> float | None:
    """Return seconds since 1970, or None.

    ISO 8601, by default in UTC; ms since 1970; or DDhhmmss of the air-traffic feed, from the first
    day of any month.
    """
    text = text.strip()
    if feed := _FEED_TIME.fullmatch(text):
        day, hour, minute, second = (int(part) for part in feed.groups())
        return day * 86400.0 + hour * 3600 + minute * 60 + second
    if re.fullmatch(r"[0-9]{10,16}", text, re.ASCII):
        return int(text) / 1000
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def parse_event_time(text: str) -> int | None:
    """Return ms since 1970, or None.

    ISO 8601, by default in UTC, or ms since 1970. The air-traffic feed's form has no month.
    """
    text = text.strip()
    if re.fullmatch(r"[0-9]{9,16}", text, re.ASCII):
        return int(text)
    if re.fullmatch(r"[0-9]{,8}", text, re.ASCII):
        return None
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        return None


class TimePath:
    """Path of a payload's time: `Who/Date`, `.//Time`, `/flight/timestamp`, `head/@at`.

    Steps of ElementPath, with an optional attribute. Raises ValueError.
    """

    def __init__(self, text: str) -> None:
        elements, slash, attribute = text.rpartition("@")
        self._attribute = attribute if slash else ""
        path = (elements if slash else text).rstrip("/") or "."
        self._root = ""
        if path.startswith("/") and not path.startswith("//"):
            self._root, _, path = path[1:].partition("/")
        self._path = f".{path}" if path.startswith("/") else path or "."
        if slash and not re.fullmatch(r"[^\s/@\[\]]+", attribute):
            raise ValueError("the text after @ is not the name of an attribute")
        try:
            etree.Element("any").find(self._path)
        except (SyntaxError, KeyError, ValueError) as error:
            raise ValueError(str(error)) from None

    def find_time(self, root: etree._Element) -> float | None:
        if self._root.rpartition(":")[2] not in ("", "*", etree.QName(root).localname):
            return None
        found = root if self._path == "." else root.find(self._path)
        if found is None:
            return None
        text = found.get(self._attribute) if self._attribute else found.text
        return parse_time(text or "")


class AsFastAsPossible:
    def delay(self, time: float | None, now: float) -> float:
        return 0.0


class Rate:
    """Catches up late timers, but no longer breaks."""

    def __init__(self, events_per_second: float) -> None:
        self._step = 1 / events_per_second
        self._due: float | None = None

    def delay(self, time: float | None, now: float) -> float:
        due = now if self._due is None else max(self._due, now - MAX_CATCH_UP)
        self._due = due + self._step
        return max(0.0, due - now)


class OriginalPace:
    """Spacing of the events' own times, `factor` times as fast.

    An event without a later time than the last is due at once.
    """

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._reference: tuple[float, float] | None = None
        self._latest = 0.0

    def delay(self, time: float | None, now: float) -> float:
        if time is None:
            return 0.0
        if self._reference is None or time < self._latest - RECORDING_RESET:
            self._reference = (time, now)
            self._latest = time
        self._latest = max(self._latest, time)
        first, started = self._reference
        return max(0.0, started + (time - first) / self._factor - now)


Pace = AsFastAsPossible | Rate | OriginalPace
