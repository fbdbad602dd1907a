"""Newer versions of event types, with the times when the node first had them.

A returning client gets notices of versions since its absence (M16).
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from twisted.logger import Logger

from broker.dtd.atomic_file import read_checksummed, write_checksummed
from broker.dtd.reference import DtdReference
from broker.errors import BadName

#: In the file; beyond that the oldest is removed.
MAX_VERSIONS: Final = 1000


class NewVersions:
    _log = Logger()

    def __init__(
        self, path: Path, write: Callable[..., Any], wall_clock: Callable[[], int], *, sync: bool
    ) -> None:
        """`write` runs calls on one thread, in order."""
        self._path = path
        self._write = write
        self._wall_clock = wall_clock
        self._sync = sync
        self._arrivals: OrderedDict[DtdReference, int] = OrderedDict()
        self._load()

    def record_version(self, reference: DtdReference) -> None:
        """Record a version that is newer than all known ones of its type."""
        if reference in self._arrivals:
            return
        self._arrivals[reference] = self._wall_clock()
        if len(self._arrivals) > MAX_VERSIONS:
            self._arrivals.popitem(last=False)
        content = {f"{each.type} {each.version}": ms for each, ms in self._arrivals.items()}
        self._write(self._save, json.dumps(content).encode())

    def versions_since(self, ms: int) -> list[DtdReference]:
        """Return versions since a time (ms since 1970), oldest first."""
        return [reference for reference, arrived_ms in self._arrivals.items() if arrived_ms >= ms]

    def versions_within(self, ms: int) -> list[DtdReference]:
        return self.versions_since(self._wall_clock() - ms)

    def _load(self) -> None:
        try:
            data = read_checksummed(self._path)
            for name, arrived_ms in json.loads(data or b"{}").items():
                type_name, _, version = name.partition(" ")
                self._arrivals[DtdReference(type_name, version)] = int(arrived_ms)
        except (ValueError, TypeError, AttributeError, BadName) as error:
            self._log.error("{path} can not be read: {error}", path=str(self._path), error=error)

    def _save(self, data: bytes) -> None:
        try:
            write_checksummed(self._path, data, sync=self._sync)
        except OSError as error:
            self._log.error("{path} can not be written: {error}", path=str(self._path), error=error)
