"""The size of an LMDB file, which never falls."""

from __future__ import annotations

import os
from pathlib import Path

from broker.errors import LogCorrupt
from broker.log.page_check import REPAIR_ADVICE
from broker.log.page_file import FILE


class FileSize:
    """Detects truncation: the kernel kills a process that reads LMDB's map beyond its end
    (SIGBUS)."""

    def __init__(self, folder: Path) -> None:
        self._path = str(folder / FILE)
        self._least = os.stat(self._path).st_size

    def check(self) -> None:
        """Call before each transaction. Raises `LogCorrupt`."""
        # In this order: another thread may write.
        least = self._least
        size = os.stat(self._path).st_size
        if size < least:
            raise LogCorrupt(
                f"{self._path} was cut short while it was open: it has {size} bytes, and had "
                f"{least}; {REPAIR_ADVICE}"
            )
        self._least = size
