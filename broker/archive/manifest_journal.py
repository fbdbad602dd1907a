"""Reading the manifests of all writers, and writing those of one."""

from __future__ import annotations

from collections.abc import Callable

from broker.archive.archive_state import ArchiveState, StateBuilder
from broker.archive.journal import Journal
from broker.archive.journal_writer import JournalWriter
from broker.archive.layout import EVENTS, MANIFESTS
from broker.archive.manifest import Manifest, SetAside
from broker.archive.object_store import ObjectStore


class ManifestJournal:
    def __init__(self, objects: ObjectStore) -> None:
        self.objects = objects
        self._journal = Journal(objects, MANIFESTS, Manifest.from_json)
        self._state_builder = StateBuilder()

    def read_state(self) -> ArchiveState:
        """Return the same object as before if nothing changed."""
        return self._state_builder.build_state(self._journal.read())

    def manifest_of(self, writer: str) -> Manifest:
        return self._state_builder.manifest_of(writer)

    def is_damaged(self, writer: str) -> bool:
        return self._journal.is_damaged(writer)

    def expect_page(self, writer: str, number: int) -> None:
        self._journal.expect_page(writer, number)

    def writers(self) -> list[str]:
        return self._journal.writers()


class ManifestWriter:
    """Manifests of one writer. No other process may use its name at the same time."""

    def __init__(
        self, manifests: ManifestJournal, writer: str, wall_clock: Callable[[], int]
    ) -> None:
        """`wall_clock` returns ms since 1970. Raises `BadName` if the name cannot be a folder."""
        self._manifests = manifests
        self._journal = JournalWriter(manifests.objects, MANIFESTS, writer)
        self._wall_clock = wall_clock
        self.writer = writer
        self._last_read: Manifest | None = None
        self._written: Manifest | None = None
        """The manifests of this writer when all were last readable, and those written since."""

    def write(self, manifest: Manifest) -> None:
        """Write a manifest with the current time.

        It may be stored even if this raises `ArchiveUnavailable`.
        """
        manifest.at = self._wall_clock()
        if not self._journal.last_number:
            everything = self._manifests.read_state().manifest
            self._journal.skip_numbers_upto(everything.pages.get(self.writer, 0))
        self._journal.put_page(manifest.to_json(), self._snapshot_body)
        self._manifests.expect_page(self.writer, self._journal.last_number)
        if self._written is not None:
            self._written.merge(manifest)

    def repair(self, state: ArchiveState) -> bool:
        """Write a snapshot, and return True, if a manifest was lost since this process read it.

        `state` is the current state. Raises `ArchiveUnavailable`.
        """
        own = self._manifests.manifest_of(self.writer)
        if not self._manifests.is_damaged(self.writer):
            if own is not self._last_read:
                self._last_read, self._written = own, Manifest()
                self._written.merge(own)
            return False
        if self._written is None:
            return False
        snapshot, everything = Manifest(), Manifest()
        for each in (self._written, own):
            snapshot.merge(each)
        for each in (state.manifest, snapshot):
            everything.merge(each)
        snapshot = snapshot.without_obsolete(everything, state.unreadable)
        self._set_aside_missing_files(snapshot)
        self._journal.put_snapshot(snapshot.to_json())
        self._manifests.expect_page(self.writer, self._journal.last_number)
        return True

    def _set_aside_missing_files(self, snapshot: Manifest) -> None:
        """Set missing files aside, so that they are written again.

        An archive that was reset lost files together with manifests.
        """
        present = {each.path for each in self._manifests.objects.list_objects(EVENTS)}
        reason = SetAside("it is listed but missing", self._wall_clock())
        for path in snapshot.adds.keys() - present - snapshot.removes.keys():
            snapshot.aside.setdefault(path, reason)

    def _snapshot_body(self) -> dict[str, object] | None:
        """Return None while a page is unreadable.

        A snapshot would hide that page, and its files would count as unlisted.
        """
        state = self._manifests.read_state()
        if any(path.startswith(f"{MANIFESTS}/{self.writer}/") for path in state.problems):
            return None
        own = self._manifests.manifest_of(self.writer)
        return own.without_obsolete(state.manifest, state.unreadable).to_json()
