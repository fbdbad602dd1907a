"""Writing a journal: numbered pages, and snapshots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from broker.archive.journal import Journal, Page, page_path
from broker.archive.layout import check_writer_name
from broker.archive.object_store import ObjectStore
from broker.errors import ArchiveUnavailable

#: Least pages between snapshots: about so many are read at the opening.
SNAPSHOT_EVERY: Final = 64
#: Most pages between snapshots; below it the pages since the last one need half its size. So
#: snapshots at most double the space.
_MAX_PAGES: Final = 1024


class JournalWriter:
    """The journal of one writer. No other process may use its name at the same time."""

    def __init__(self, objects: ObjectStore, folder: str, writer: str) -> None:
        self.writer = check_writer_name(writer)
        self._objects = objects
        self._folder = folder
        self._last_number: int | None = None
        self._min_number = 0
        self._pages_since_snapshot = 0
        self._bytes_since_snapshot = 0
        self._snapshot_bytes = 0

    def put_page(
        self,
        body: dict[str, Any],
        snapshot: Callable[[], dict[str, Any] | None],
        *,
        repeat: bool = False,
    ) -> None:
        """Write a page, and a snapshot if one is due.

        The page may be stored even if it raises `ArchiveUnavailable`. `snapshot` returns None if
        none is possible now. `repeat` requests a snapshot. Failure to write the snapshot is no
        error.
        """
        self._bytes_since_snapshot += self._write_page(body, False)
        self._pages_since_snapshot += 1
        if repeat or self._is_snapshot_due():
            try:
                repeated = snapshot()
                if repeated is not None:
                    self.put_snapshot(repeated)
            except ArchiveUnavailable:
                # The next page tries the snapshot again.
                return

    def skip_numbers_upto(self, number: int) -> None:
        """Use no number up to this one: its page was seen, and may be lost."""
        self._min_number = number

    @property
    def last_number(self) -> int:
        """Number of the last page; 0 if unknown."""
        return self._last_number or 0

    def put_snapshot(self, body: dict[str, Any]) -> None:
        """Raises `ArchiveUnavailable`."""
        self._snapshot_bytes = self._write_page(body, True)
        self._pages_since_snapshot = self._bytes_since_snapshot = 0

    def _is_snapshot_due(self) -> bool:
        enough = (
            self._pages_since_snapshot >= SNAPSHOT_EVERY
            and 2 * self._bytes_since_snapshot >= self._snapshot_bytes
        )
        return enough or self._pages_since_snapshot >= _MAX_PAGES

    def _write_page(self, body: dict[str, Any], snapshot: bool) -> int:
        last, self._last_number = (
            self._find_last_number() if self._last_number is None else self._last_number,
            None,
        )
        page = Page(last + 1, snapshot, body)
        path = page_path(self._folder, self.writer, page.number)
        data = page.encode()
        self._objects.put_new(path, data)
        # After an error only a listing shows the next number.
        self._last_number = page.number
        return len(data)

    def _find_last_number(self) -> int:
        numbers = Journal(self._objects, self._folder).list_page_numbers(self.writer)
        # Many pages at the start cause a snapshot soon.
        self._pages_since_snapshot = max(self._pages_since_snapshot, len(numbers))
        return max((*numbers, self._min_number))
