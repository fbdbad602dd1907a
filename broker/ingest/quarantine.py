"""Quarantine: a bounded folder of refused documents for inspection (DESIGN 5).

`N.xml` holds the bytes, `N.json` the sender, the time and the error. The oldest are deleted first.
At most `MAX_WAITING` documents of `MAX_WAITING_BYTES` wait for the disk; further ones are dropped.
"""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from twisted.internet.defer import Deferred

from broker.errors import BrokerError
from broker.limit_registry import LimitRegistry

MAX_WAITING: Final = 256
MAX_WAITING_BYTES: Final = 8 * 1024 * 1024


def is_details_file(path: Path) -> bool:
    """Return True for the details of a document in a quarantine, which are no document."""
    return path.suffix == ".json" and path.stem.isdigit() and path.with_suffix(".xml").is_file()


class Quarantine:
    """`write` runs a call on another thread, in order."""

    def __init__(
        self,
        folder: Path,
        *,
        max_files: int,
        max_bytes: int,
        limit_registry: LimitRegistry,
        write: Callable[..., Deferred[Any]],
        wall_clock: Callable[[], int],
    ) -> None:
        self._folder = folder
        self._max_files = max_files
        self._max_bytes = max_bytes
        self._write = write
        self._wall_clock = wall_clock
        self._files: deque[tuple[int, int]] = deque()
        self._bytes = 0
        self._file_limit = limit_registry.add(
            "quarantine-files",
            setting="limits.quarantine_files",
            bound=lambda: self._max_files,
            used=lambda: len(self._files),
        )
        self._byte_limit = limit_registry.add(
            "quarantine-bytes",
            setting="limits.quarantine_bytes",
            bound=lambda: self._max_bytes,
            used=lambda: self._bytes,
        )
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(folder.glob("*.xml"), key=lambda p: p.stem.zfill(20)):
            if path.stem.isdigit():
                self._files.append((int(path.stem), path.stat().st_size))
                self._bytes += path.stat().st_size
        self._next_number = self._files[-1][0] + 1 if self._files else 1
        self._waiting = 0
        self._waiting_bytes = 0
        self._waiting_limit = limit_registry.add(
            "quarantine-waiting", bound=lambda: MAX_WAITING, used=lambda: self._waiting
        )
        self._waiting_bytes_limit = limit_registry.add(
            "quarantine-waiting-bytes",
            bound=lambda: MAX_WAITING_BYTES,
            used=lambda: self._waiting_bytes,
        )

    def set_bounds(self, max_files: int, max_bytes: int) -> None:
        """Change the bounds; the next document removes what is beyond them."""
        self._max_files, self._max_bytes = max_files, max_bytes

    def add_document(self, document: bytes, error: BrokerError, sender: str) -> None:
        """Store a document, unless it exceeds the folder's limit."""
        if len(document) > self._max_bytes or self._max_files < 1:
            (self._byte_limit if self._max_files else self._file_limit).count_reached()
            return
        size = len(document)
        if self._waiting >= MAX_WAITING:
            self._waiting_limit.count_reached()
            return
        # A document that exceeds the bound alone is written if nothing waits.
        if self._waiting and self._waiting_bytes + size > MAX_WAITING_BYTES:
            self._waiting_bytes_limit.count_reached()
            return
        number, self._next_number = self._next_number, self._next_number + 1
        self._files.append((number, size))
        self._bytes += size
        removed = []
        while len(self._files) > self._max_files or self._bytes > self._max_bytes:
            of_files = len(self._files) > self._max_files
            (self._file_limit if of_files else self._byte_limit).count_reached()
            old, old_size = self._files.popleft()
            self._bytes -= old_size
            removed.append(old)
        details = {
            "sender": sender,
            "time_ms": self._wall_clock(),
            "code": error.code,
            "error": error.text,
            "line": error.line,
            "column": error.column,
        }
        self._waiting += 1
        self._waiting_bytes += size
        written = self._write(self._write_files, number, document, json.dumps(details), removed)
        written.addBoth(self._settle, size)

    def _settle(self, _: object, size: int) -> None:
        self._waiting -= 1
        self._waiting_bytes -= size

    def _write_files(self, number: int, document: bytes, details: str, removed: list[int]) -> None:
        try:
            (self._folder / f"{number}.xml").write_bytes(document)
            (self._folder / f"{number}.json").write_text(details)
        except OSError:
            # The disk is full: delete the incomplete pair.
            removed = [*removed, number]
        for old in removed:
            for ending in ("xml", "json"):
                with contextlib.suppress(OSError):
                    (self._folder / f"{old}.{ending}").unlink()
