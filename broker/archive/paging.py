"""Writing a journal: the next number, and a snapshot now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from broker.archive.journal import Journal, Page, page_path
from broker.archive.layout import check_writer
from broker.archive.objects import Objects
from broker.errors import ArchiveUnavailable

#: Pages between snapshots, at least: what somebody reads who opens the archive is about so much.
SNAPSHOT_EVERY: Final = 64
#: A large snapshot waits until the pages since the last one are a half of it, so that snapshots
#: take no more room than twice what they repeat; but not for more pages than this.
_MOST_PAGES: Final = 1024


class JournalWriter:
    """The journal of one writer. No other process may write under its name at the same time."""

    def __init__(self, objects: Objects, folder: str, writer: str) -> None:
        self.writer = check_writer(writer)
        self._objects = objects
        self._folder = folder
        self._last: int | None = None
        self._least = 0
        self._since = 0
        self._bytes_since = 0
        self._snapshot_bytes = 0

    def put(
        self,
        body: dict[str, Any],
        snapshot: Callable[[], dict[str, Any] | None],
        *,
        repeat: bool = False,
    ) -> None:
        """Say this. `ArchiveUnavailable`: it may have been said all the same.

        `snapshot` gives the body that repeats everything, if it is time for that, or with
        `repeat`; None if there should be none now. It is not an error if that one can not be put.
        """
        self._bytes_since += self._page(body, False)
        self._since += 1
        if repeat or self._is_time():
            try:
                repeated = snapshot()
                if repeated is not None:
                    self.put_snapshot(repeated)
            except ArchiveUnavailable:
                # Said is said; it is tried again at the next one.
                return

    def go_on_behind(self, number: int) -> None:
        """Use no number up to this one: its page was seen, and may be lost."""
        self._least = number

    @property
    def last(self) -> int:
        """The number of the page that was put last; 0 if that is not known."""
        return self._last or 0

    def put_snapshot(self, body: dict[str, Any]) -> None:
        """Repeat everything. `ArchiveUnavailable`."""
        self._snapshot_bytes = self._page(body, True)
        self._since = self._bytes_since = 0

    def _is_time(self) -> bool:
        enough = self._since >= SNAPSHOT_EVERY and 2 * self._bytes_since >= self._snapshot_bytes
        return enough or self._since >= _MOST_PAGES

    def _page(self, body: dict[str, Any], snapshot: bool) -> int:
        """Put a page; its bytes."""
        last, self._last = self._newest() if self._last is None else self._last, None
        page = Page(last + 1, snapshot, body)
        path = page_path(self._folder, self.writer, page.number)
        data = page.encode()
        self._objects.put_new(path, data)
        # Forgotten until here: after an error only a look shows which number is free.
        self._last = page.number
        return len(data)

    def _newest(self) -> int:
        numbers = Journal(self._objects, self._folder).numbers(self.writer)
        # A writer that comes back makes a snapshot soon if many pages lie there.
        self._since = max(self._since, len(numbers))
        return max((*numbers, self._least))
