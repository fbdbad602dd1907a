"""A copy of an archive: a backup, or the source of a restore (Q19).

Events are copied before their manifests, so the target is valid at every moment. Objects never
change: the next copy transfers only new ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from broker.archive.archive import Archive
from broker.archive.archive_state import ArchiveState
from broker.archive.layout import DTDS, DURABLES, EVENTS, MANIFESTS
from broker.errors import ArchiveCorrupt, ArchiveObjectMissing, ArchiveUnavailable

MAX_ATTEMPTS: Final = 100
_PAGES_PER_PUT: Final = 1_000


@attrs.define
class BackupResult:
    files: int = 0
    """Files of events copied; `bytes` is their size."""
    bytes: int = 0
    there: int = 0
    """Files that the target had already."""
    dtds: int = 0
    pages: int = 0
    """Pages of manifests and of durable subscriptions."""
    damaged: list[str] = attrs.field(factory=list)
    """Paths of objects that are missing or do not match their hash.

    The copy lists them and lacks them.
    """


class Backup:
    def __init__(self, source: Archive, target: Archive) -> None:
        """`target` is new or an earlier copy. No other process may write to it."""
        self._source = source
        self._target = target
        self.result = BackupResult()

    def run(self, progress: Callable[[int, int], object] = lambda done, of: None) -> BackupResult:
        """Copy missing objects; `progress` receives copied and total bytes of event files.

        Raises `ArchiveCorrupt` if the target holds another archive.
        """
        with self._source.open_reader_lease() as lease:
            state, pages = self._read_pages()
            known = self._stored_sizes(self._target, MANIFESTS, DURABLES)
            for path, size in known.items():
                if path in pages and len(pages[path]) != size:
                    raise ArchiveCorrupt(
                        f"the target is not a copy of this archive: {path} differs"
                    )
            self._copy_events(state, progress, lease.renew)
            self._copy_dtds(state)
            new = [(path, data) for path, data in sorted(pages.items()) if path not in known]
            for first in range(0, len(new), _PAGES_PER_PUT):
                self._target.objects.put(new[first : first + _PAGES_PER_PUT])
            self.result.pages = len(new)
        return self.result

    def _read_pages(self) -> tuple[ArchiveState, Mapping[str, bytes]]:
        for _ in range(MAX_ATTEMPTS):
            state = self._source.state()
            try:
                pages = {
                    path: self._source.objects.get(path)
                    for path in self._stored_sizes(self._source, MANIFESTS, DURABLES)
                }
            except ArchiveObjectMissing:
                # A snapshot has replaced the page.
                continue
            if self._source.state() is state:
                return state, pages
        raise ArchiveUnavailable("the archive's manifests change faster than they can be read")

    def _copy_events(
        self,
        state: ArchiveState,
        progress: Callable[[int, int], object],
        refresh: Callable[[], object],
    ) -> None:
        stored = self._stored_sizes(self._target, EVENTS)
        of, seen = sum(file.bytes for file in state.files.values()), 0
        for path, file in sorted(state.files.items()):
            if stored.get(path) == file.bytes:
                self.result.there += 1
            elif self._copy(path, file.sha256):
                self.result.files += 1
                self.result.bytes += file.bytes
            seen += file.bytes
            progress(seen, of)
            refresh()

    def _copy_dtds(self, state: ArchiveState) -> None:
        stored = self._stored_sizes(self._target, DTDS)
        for text in sorted(state.manifest.dtds):
            if text.path not in stored:
                self.result.dtds += self._copy(text.path, text.sha256)

    def _copy(self, path: str, sha256: str) -> bool:
        try:
            data = self._source.objects.get(path)
        except ArchiveObjectMissing:
            data = b""
        if hashlib.sha256(data).hexdigest() != sha256:
            self.result.damaged.append(path)
            return False
        self._target.objects.put([(path, data)])
        return True

    def _stored_sizes(self, archive: Archive, *folders: str) -> dict[str, int]:
        return {
            each.path: each.bytes
            for folder in folders
            for each in archive.objects.list_objects(folder)
        }
