"""A copy of an archive elsewhere: a backup, or what one is restored from (Q19).

What has the form of an archive in the target is one at every moment: events come before what lists
them. A second copy brings only what is new, since objects never change.
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

#: How often manifests are read anew that change while they are read.
MAX_ATTEMPTS: Final = 100
#: Pages that are put at a time.
_PAGES_PER_PUT: Final = 1_000


@attrs.define
class BackupResult:
    """What a copy came to."""

    files: int = 0
    """Of events, with their bytes."""
    bytes: int = 0
    there: int = 0
    """Files that the target had already."""
    dtds: int = 0
    pages: int = 0
    """Of manifests, and of durable subscriptions."""
    damaged: list[str] = attrs.field(factory=list)
    """What is not what its hash says, or is missing. The copy lists it, and lacks it."""


class Backup:
    """Brings all that one archive lists to another place."""

    def __init__(self, source: Archive, target: Archive) -> None:
        """`target` is new, or an earlier copy; nobody may write to it."""
        self._source = source
        self._target = target
        self.result = BackupResult()

    def run(self, progress: Callable[[int, int], object] = lambda done, of: None) -> BackupResult:
        """Copy what is not there. `progress` is told bytes of files of events, and of how many.

        `ArchiveCorrupt` if the target has pages of another archive.
        """
        with self._source.open_reader_lease() as lease:
            state, pages = self._read_pages()
            known = self._stored_sizes(self._target, MANIFESTS, DURABLES)
            for path, size in known.items():
                if path in pages and len(pages[path]) != size:
                    raise ArchiveCorrupt(f"the target is no copy of this archive: {path} differs")
            self._copy_events(state, progress, lease.renew)
            self._copy_dtds(state)
            new = [(path, data) for path, data in sorted(pages.items()) if path not in known]
            for first in range(0, len(new), _PAGES_PER_PUT):
                self._target.objects.put(new[first : first + _PAGES_PER_PUT])
            self.result.pages = len(new)
        return self.result

    def _read_pages(self) -> tuple[ArchiveState, Mapping[str, bytes]]:
        """All pages, and what just these say that there is."""
        for _ in range(MAX_ATTEMPTS):
            state = self._source.state()
            try:
                pages = {
                    path: self._source.objects.get(path)
                    for path in self._stored_sizes(self._source, MANIFESTS, DURABLES)
                }
            except ArchiveObjectMissing:
                # A snapshot has taken its place.
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
