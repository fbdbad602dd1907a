"""Quarantine: a bounded folder of refused documents for inspection (DESIGN 5).

`N.xml` holds the bytes, `N.json` the sender, the time and the error. The oldest are deleted first.
"""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.errors import BrokerError
from broker.limit_registry import LimitRegistry


class Quarantine:
    """`write` runs a call on another thread, in order."""

    def __init__(
        self,
        folder: Path,
        *,
        max_files: int,
        max_bytes: int,
        limit_registry: LimitRegistry,
        write: Callable[..., Any],
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

    def add_document(self, document: bytes, error: BrokerError, sender: str) -> None:
        """Store a document, unless it exceeds the folder's limit."""
        if len(document) > self._max_bytes or self._max_files < 1:
            (self._byte_limit if self._max_files else self._file_limit).count_reached()
            return
        number, self._next_number = self._next_number, self._next_number + 1
        self._files.append((number, len(document)))
        self._bytes += len(document)
        removed = []
        while len(self._files) > self._max_files or self._bytes > self._max_bytes:
            of_files = len(self._files) > self._max_files
            (self._file_limit if of_files else self._byte_limit).count_reached()
            old, size = self._files.popleft()
            self._bytes -= size
            removed.append(old)
        details = {
            "sender": sender,
            "time_ms": self._wall_clock(),
            "code": error.code,
            "error": error.text,
            "line": error.line,
            "column": error.column,
        }
        self._write(self._write_files, number, document, json.dumps(details), removed)

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
