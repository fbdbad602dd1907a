"""Alarms of a node: those that last are reported once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

#: Seconds between two checks for alarms.
_CHECK_SECONDS: Final = 0.5
#: Time for which an event is an alarm.
_RECENT_SECONDS: Final = 60.0


class AlarmReports:
    def __init__(self, report: Callable[[str], object], now: float) -> None:
        self.present: list[str] = []
        self._report = report
        self._reported: set[str] = set()
        self._check_at = now
        self._recent: dict[str, tuple[float, str]] = {}
        """Time and text of the last event of each kind."""

    def note_event(self, kind: str, text: str, now: float) -> None:
        """Let the text be an alarm for a minute, in place of an earlier one of its kind."""
        self._recent[kind] = now, text

    def is_due(self, now: float) -> bool:
        return now >= self._check_at

    def check(self, alarms: Iterable[str], now: float) -> None:
        """Report present alarms that were there at the last check: after a start or a repair, some
        last for a moment."""
        self._check_at = now + _CHECK_SECONDS
        recent = [text for at, text in self._recent.values() if now < at + _RECENT_SECONDS]
        present = [*alarms, *recent]
        for each in present:
            if each in self.present and each not in self._reported:
                self._reported.add(each)
                self._report(each)
        self._reported.intersection_update(present)
        self.present = present
