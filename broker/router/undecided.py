"""Events that were logged before their DTD was here: to be validated before they are delivered.

By origin one range of places, which may hold other events, too: those are validated once more.
The ranges are kept on disk, and written before the events.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from twisted.logger import Logger

from broker.dtd.whole_file import write_whole
from broker.event.place import Mark


class UndecidedEvents:
    """The ranges, by origin: at and up to."""

    _log = Logger()

    def __init__(self, path: Path, write: Callable[..., Any], *, sync: bool) -> None:
        """`write` runs calls on the thread that writes the log, in order."""
        self._path = path
        self._write = write
        self._sync = sync
        self._ranges: dict[str, tuple[Mark, Mark]] = {}
        self.count = 0
        """Events that were logged undecided since the start."""
        with contextlib.suppress(FileNotFoundError):
            self._load(path.read_bytes())

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def note(self, origin: str, first: Mark, last: Mark, count: int) -> None:
        """Events at these places are about to be logged undecided."""
        self.count += count
        known = self._ranges.get(origin, (first, last))
        wider = (min(known[0], first), max(known[1], last))
        if self._ranges.get(origin) != wider:
            self._ranges[origin] = wider
            self._save_later()

    def has(self, origin: str, mark: Mark) -> bool:
        """Whether the event at a place may be undecided."""
        found = self._ranges.get(origin)
        return found is not None and found[0] <= mark <= found[1]

    def forget_trimmed(self, since: Mapping[str, Mark]) -> None:
        """Drop ranges of which the log has nothing any more: it begins behind these marks."""
        gone = [o for o, (_, last) in self._ranges.items() if last <= since.get(o, (0, 0))]
        for origin in gone:
            del self._ranges[origin]
        if gone:
            self._save_later()

    def _load(self, data: bytes) -> None:
        try:
            for origin, ((e1, o1), (e2, o2)) in json.loads(data).items():
                self._ranges[str(origin)] = (int(e1), int(o1)), (int(e2), int(o2))
        except (ValueError, TypeError, AttributeError) as error:
            self._log.error("{path} can not be read: {error}", path=str(self._path), error=error)

    def _save_later(self) -> None:
        self._write(self._save, json.dumps(self._ranges).encode())

    def _save(self, data: bytes) -> None:
        try:
            write_whole(self._path, data, sync=self._sync)
        except OSError as error:
            self._log.error("{path} is not written: {error}", path=str(self._path), error=error)
