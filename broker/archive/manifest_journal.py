"""The manifests of an archive: those of all writers read, those of one written."""

from __future__ import annotations

from collections.abc import Callable

from broker.archive.archive_state import ArchiveState, StateBuilder
from broker.archive.journal import Journal
from broker.archive.journal_writer import JournalWriter
from broker.archive.layout import EVENTS, MANIFESTS
from broker.archive.manifest import Manifest, SetAside
from broker.archive.object_store import ObjectStore


class ManifestJournal:
    """What all writers say, as it becomes known."""

    def __init__(self, objects: ObjectStore) -> None:
        self.objects = objects
        self._journal = Journal(objects, MANIFESTS, Manifest.from_json)
        self._state_builder = StateBuilder()

    def read_state(self) -> ArchiveState:
        """What there is now; the same object as before when nothing is new."""
        return self._state_builder.build_state(self._journal.read())

    def manifest_of(self, writer: str) -> Manifest:
        """What one writer has said, as of the last `state`."""
        return self._state_builder.manifest_of(writer)

    def is_damaged(self, writer: str) -> bool:
        """Whether a part of what it has said can not be read, as of the last `state`."""
        return self._journal.is_damaged(writer)

    def expect_page(self, writer: str, number: int) -> None:
        """See `Journal.expect_page`."""
        self._journal.expect_page(writer, number)

    def writers(self) -> list[str]:
        """All that have said something, as of the last `state`."""
        return self._journal.writers()


class ManifestWriter:
    """The manifests of one writer. No other process may use its name at the same time."""

    def __init__(
        self, manifests: ManifestJournal, writer: str, wall_clock: Callable[[], int]
    ) -> None:
        """`wall_clock` gives ms since 1970. `BadName` for a name that can be no folder."""
        self._manifests = manifests
        self._journal = JournalWriter(manifests.objects, MANIFESTS, writer)
        self._wall_clock = wall_clock
        self.writer = writer
        self._last_read: Manifest | None = None
        self._written: Manifest | None = None
        """What this writer said, as of when all of it could be read last, and since."""

    def write(self, manifest: Manifest) -> None:
        """Say this, with the time. `ArchiveUnavailable`: it may have been said all the same."""
        manifest.at = self._wall_clock()
        if not self._journal.last_number:
            everything = self._manifests.read_state().manifest
            self._journal.skip_numbers_upto(everything.pages.get(self.writer, 0))
        self._journal.put_page(manifest.to_json(), self._snapshot_body)
        self._manifests.expect_page(self.writer, self._journal.last_number)
        if self._written is not None:
            self._written.merge(manifest)

    def repair(self, state: ArchiveState) -> bool:
        """Say again what this writer said, if a part of it was lost since this process could read
        it; return whether it did. `state` was read just now. `ArchiveUnavailable`."""
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
        """Whatever took manifests may have taken files: an archive was set back to an older copy.
        These are to be written again."""
        present = {each.path for each in self._manifests.objects.list_objects(EVENTS)}
        reason = SetAside("it is listed and not there", self._wall_clock())
        for path in snapshot.adds.keys() - present - snapshot.removes.keys():
            snapshot.aside.setdefault(path, reason)

    def _snapshot_body(self) -> dict[str, object] | None:
        """All that this writer has said and that is of use still.

        None while a part can not be read and was not given up: behind a snapshot that part would
        be forgotten, and what only it lists would be taken for what nobody lists.
        """
        state = self._manifests.read_state()
        if any(path.startswith(f"{MANIFESTS}/{self.writer}/") for path in state.problems):
            return None
        own = self._manifests.manifest_of(self.writer)
        return own.without_obsolete(state.manifest, state.unreadable).to_json()
