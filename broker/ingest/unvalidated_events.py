"""Events logged before their DTD was known, to be validated before delivery.

All events in an origin's range are validated. Ranges are written before the events. If the file is
lost, all events of other nodes count as unvalidated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from twisted.logger import Logger

from broker.dtd.atomic_file import read_checksummed, write_checksummed
from broker.event.place import Mark


class UnvalidatedEvents:
    """Ranges by origin, both ends included."""

    _log = Logger()

    def __init__(self, path: Path, write: Callable[..., Any], *, sync: bool) -> None:
        """`write` runs calls on the thread that writes the log, in order."""
        self._path = path
        self._write = write
        self._sync = sync
        self._ranges: dict[str, tuple[Mark, Mark]] = {}
        self.count = 0
        """Since the start."""
        self._has_unwritten_changes = False
        self.is_file_damaged = False
        """True: call `add_all` with the log's marks."""
        self._load()

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def add_range(self, origin: str, first: Mark, last: Mark, count: int) -> None:
        """Add events that are about to be logged."""
        self.count += count
        known = self._ranges.get(origin, (first, last))
        merged = (min(known[0], first), max(known[1], last))
        if self._ranges.get(origin) != merged or self._has_unwritten_changes:
            self._ranges[origin] = merged
            self._save_later()

    def add_all(self, since: Mapping[str, Mark], upto: Mapping[str, Mark]) -> None:
        """Count all events between these marks as unvalidated."""
        for origin, last in upto.items():
            self.add_range(origin, since.get(origin, (0, 0)), last, 0)
        self.is_file_damaged = False

    def may_contain(self, origin: str, mark: Mark) -> bool:
        found = self._ranges.get(origin)
        return found is not None and found[0] <= mark <= found[1]

    def remove_trimmed(self, since: Mapping[str, Mark]) -> None:
        """Remove ranges before `since`, behind which the log begins."""
        trimmed = [o for o, (_, last) in self._ranges.items() if last <= since.get(o, (0, 0))]
        for origin in trimmed:
            del self._ranges[origin]
        if trimmed or self._has_unwritten_changes:
            self._save_later()

    def _load(self) -> None:
        try:
            data = read_checksummed(self._path)
            for origin, ((e1, o1), (e2, o2)) in json.loads(data or b"{}").items():
                self._ranges[str(origin)] = (int(e1), int(o1)), (int(e2), int(o2))
        except (ValueError, TypeError, AttributeError) as error:
            self.is_file_damaged = True
            self._log.error("{path} can not be read: {error}", path=str(self._path), error=error)

    def _save_later(self) -> None:
        self._write(self._save, json.dumps(self._ranges).encode())

    def _save(self, data: bytes) -> None:
        try:
            write_checksummed(self._path, data, sync=self._sync)
            self._has_unwritten_changes = False
        except OSError as error:
            self._has_unwritten_changes = True
            self._log.error("{path} can not be written: {error}", path=str(self._path), error=error)
