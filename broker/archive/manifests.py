"""The manifests of an archive: those of all writers read, those of one written."""

from __future__ import annotations

from collections.abc import Callable

from broker.archive.journal import Journal
from broker.archive.layout import EVENTS, MANIFESTS
from broker.archive.manifest import Manifest, SetAside
from broker.archive.objects import Objects
from broker.archive.paging import JournalWriter
from broker.archive.state import ArchiveState, StateReading


class Manifests:
    """What all writers say, as it becomes known."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self._journal = Journal(objects, MANIFESTS, Manifest.from_json)
        self._reading = StateReading()

    def state(self) -> ArchiveState:
        """What there is now; the same object as before when nothing is new."""
        return self._reading.state(self._journal.read())

    def said_by(self, writer: str) -> Manifest:
        """What one writer has said, as of the last `state`."""
        return self._reading.said_by(writer)

    def damaged(self, writer: str) -> bool:
        """Whether a part of what it has said can not be read, as of the last `state`."""
        return self._journal.damaged(writer)

    def expect(self, writer: str, number: int) -> None:
        """See `Journal.expect`."""
        self._journal.expect(writer, number)

    def writers(self) -> list[str]:
        """All that have said something, as of the last `state`."""
        return self._journal.writers()


class Ledger:
    """The manifests of one writer. No other process may use its name at the same time."""

    def __init__(self, manifests: Manifests, writer: str, wall_clock: Callable[[], int]) -> None:
        """`wall_clock` gives ms since 1970. `BadName` for a name that can be no folder."""
        self._manifests = manifests
        self._journal = JournalWriter(manifests.objects, MANIFESTS, writer)
        self._wall_clock = wall_clock
        self.writer = writer
        self._read: Manifest | None = None
        self._whole: Manifest | None = None
        """What this writer said, as of when all of it could be read last, and since."""

    def enter(self, manifest: Manifest) -> None:
        """Say this, with the time. `ArchiveUnavailable`: it may have been said all the same."""
        manifest.at = self._wall_clock()
        if not self._journal.last:
            everything = self._manifests.state().everything
            self._journal.go_on_behind(everything.pages.get(self.writer, 0))
        self._journal.put(manifest.to_json(), self._snapshot)
        self._manifests.expect(self.writer, self._journal.last)
        if self._whole is not None:
            self._whole.merge(manifest)

    def mend(self, state: ArchiveState) -> bool:
        """Say again what this writer said, if a part of it was lost since this process could read
        it; return whether it did. `state` was read just now. `ArchiveUnavailable`."""
        said = self._manifests.said_by(self.writer)
        if not self._manifests.damaged(self.writer):
            if said is not self._read:
                self._read, self._whole = said, Manifest()
                self._whole.merge(said)
            return False
        if self._whole is None:
            return False
        whole, everything = Manifest(), Manifest()
        for each in (self._whole, said):
            whole.merge(each)
        for each in (state.everything, whole):
            everything.merge(each)
        whole = whole.without_gone(everything, state.unreadable)
        self._set_aside_missing(whole)
        self._journal.put_snapshot(whole.to_json())
        self._manifests.expect(self.writer, self._journal.last)
        return True

    def _set_aside_missing(self, whole: Manifest) -> None:
        """Whatever took manifests may have taken files: an archive was set back to an older copy.
        These are to be written again."""
        there = {each.path for each in self._manifests.objects.below(EVENTS)}
        why = SetAside("it is listed and not there", self._wall_clock())
        for path in whole.adds.keys() - there - whole.removes.keys():
            whole.aside.setdefault(path, why)

    def _snapshot(self) -> dict[str, object] | None:
        """All that this writer has said and that is of use still.

        None while a part can not be read and was not given up: behind a snapshot that part would
        be forgotten, and what only it lists would be taken for what nobody lists.
        """
        state = self._manifests.state()
        if any(path.startswith(f"{MANIFESTS}/{self.writer}/") for path in state.problems):
            return None
        said = self._manifests.said_by(self.writer)
        return said.without_gone(state.everything, state.unreadable).to_json()
