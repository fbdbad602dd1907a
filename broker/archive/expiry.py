"""Expiry: retention, and deleting what nobody can be reading any more.

A file is deleted when it was removed longer ago than the grace, and no reader's lease began before
that. What no manifest lists is deleted when it is older than the grace: a flush that did not come
to its manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

import attrs

from broker.archive.adoption import find_unlisted
from broker.archive.archive import GUEST, Archive
from broker.archive.journal import Journal, page_path
from broker.archive.layout import DURABLES, EVENTS, MANIFESTS, READERS
from broker.archive.leases import ended_leases, oldest_lease
from broker.archive.manifest import Manifest
from broker.archive.manifests import Ledger
from broker.archive.objects import INCOMING, StoredObject
from broker.archive.retention import Needed, Retention, TooOld, too_old
from broker.archive.state import ArchiveState

_HOUR: Final = 3_600_000
#: Clocks of machines that share an archive differ by less (ms): a lease that seems to have begun
#: so soon after a removal counts as older.
_SKEW: Final = 60_000
#: Paths that are deleted at once, between two looks at what is to be done.
_PORTION: Final = 500


@attrs.frozen
class ExpiryRules:
    """What goes, and how soon."""

    retention: Retention = Retention()
    grace_ms: int = _HOUR
    """How long what was removed, or what nobody lists, stays."""
    aside_ms: int = 7 * 24 * _HOUR
    """How long the bytes of damaged files stay, for somebody to look at."""
    guests_ms: int = 24 * _HOUR
    """So long after its last word a writer that never comes back is read for the last time."""


@attrs.define
class Expired:
    """What expiry came to, or would."""

    removed: list[str] = attrs.field(factory=list)
    """Paths that retention took; they are deleted after the grace."""
    removed_bytes: int = 0
    held: str = ""
    """The hour that would go but for a durable subscription that needs it."""
    deleted: list[str] = attrs.field(factory=list)
    deleted_bytes: int = 0
    orphans: int = 0
    """Of what is deleted, files that no manifest lists."""
    kept_orphans: int = 0
    """Those that stay because a manifest is damaged, which may be the one that lists them."""


class Expiry:
    """Expiry of one archive, entered under the name of one writer."""

    def __init__(
        self,
        archive: Archive,
        ledger: Ledger,
        rules: ExpiryRules,
        needed: Sequence[Needed] = (),
    ) -> None:
        """`needed` is what durable subscriptions need."""
        self._archive = archive
        self._ledger = ledger
        self._rules = rules
        self._needed = needed
        self._now = archive.wall_clock()

    def plan(self) -> Expired:
        """What `run` would do now."""
        return self._expire(really=False)

    def run(self, progress: Callable[[int, int], object] = lambda done, of: None) -> Expired:
        """Do it; `progress` is told numbers of objects. `ArchiveUnavailable`."""
        return self._expire(really=True, progress=progress)

    def _expire(
        self, really: bool, progress: Callable[[int, int], object] = lambda done, of: None
    ) -> Expired:
        self._now = self._archive.wall_clock()
        objects = self._archive.objects
        # In this order: what is put between is younger than the grace.
        stored = objects.below(EVENTS)
        leases = oldest_lease(objects, self._now)
        state = self._archive.state()
        if really and (state.problems or state.missing):
            state = self._adopt(state)
        expired = Expired()
        old = self._retain(state, expired)
        doomed = [
            *self._files(state, stored, leases, expired),
            *self._pages(state),
            *(each for each in objects.below(INCOMING) if self._is_past_grace(each.modified)),
        ]
        expired.deleted = [each.path for each in doomed]
        expired.deleted_bytes = sum(each.bytes for each in doomed)
        if really:
            there = {each.path for each in stored}
            self._enter(state, old, there - set(expired.deleted), doomed, progress)
        return expired

    def _adopt(self, state: ArchiveState) -> ArchiveState:
        """List again what only lost manifests listed. With all of it these are given up."""
        found = find_unlisted(self._archive.objects, state)
        said = found.manifest
        if not found.unreadable:
            said.given_up = set(state.problems)
        if said.adds or said.given_up:
            self._ledger.enter(said)
        return self._archive.state()

    def _retain(self, state: ArchiveState, expired: Expired) -> TooOld:
        listed = [*state.files.values()]
        listed += [file for p in state.aside if (file := state.everything.adds.get(p))]
        old = too_old(listed, self._rules.retention, self._needed, self._now)
        expired.removed = [file.path for file in old.files]
        expired.removed_bytes = sum(file.bytes for file in old.files)
        expired.held = old.held
        return old

    def _files(
        self, state: ArchiveState, stored: list[StoredObject], leases: int, expired: Expired
    ) -> list[StoredObject]:
        """The files of events that can be deleted now."""
        everything = state.everything
        doomed: list[StoredObject] = []
        for each in stored:
            removed, aside = everything.removes.get(each.path), state.aside.get(each.path)
            if removed is not None:
                if self._is_past_grace(removed) and removed + _SKEW < leases:
                    doomed.append(each)
            elif aside is not None:
                if aside.at + self._rules.aside_ms < self._now:
                    doomed.append(each)
            elif each.path not in state.files and self._is_past_grace(each.modified):
                if state.problems:
                    expired.kept_orphans += 1
                else:
                    expired.orphans += 1
                    doomed.append(each)
        return doomed

    def _pages(self, state: ArchiveState) -> list[StoredObject]:
        """Pages of journals that nobody reads any more, and leases that ended."""
        objects = self._archive.objects
        doomed: set[str] = set(ended_leases(objects, self._now))
        for folder in (MANIFESTS, DURABLES):
            for writer, pages in Journal(objects, folder).read().items():
                unread = 1
                if folder == MANIFESTS and self._is_absorbed(state, writer, pages.newest):
                    unread = pages.newest + 1
                elif pages.pages and pages.pages[0].snapshot:
                    unread = pages.pages[0].number
                doomed |= {page_path(folder, writer, number) for number in range(1, unread)}
        found = chain.from_iterable(map(objects.below, (MANIFESTS, DURABLES, READERS)))
        return [
            each for each in found if each.path in doomed and self._is_past_grace(each.modified)
        ]

    def _is_absorbed(self, state: ArchiveState, writer: str, newest: int) -> bool:
        number, at = state.everything.absorbed.get(writer, (0, 0))
        return number == newest and self._is_past_grace(at)

    def _enter(
        self,
        state: ArchiveState,
        old: TooOld,
        there: set[str],
        doomed: list[StoredObject],
        progress: Callable[[int, int], object],
    ) -> None:
        """Say what is removed and what is gone, and delete."""
        for start in range(0, len(doomed), _PORTION):
            self._archive.objects.delete([e.path for e in doomed[start : start + _PORTION]])
            progress(min(start + _PORTION, len(doomed)), len(doomed))
        gone = [*(file.path for file in old.files), *state.healed]
        said = Manifest(removes=dict.fromkeys(gone, self._now))
        said.forget(old.forgets)
        said.deleted = {
            path
            for path in state.everything.removes
            if path not in there and path not in state.everything.deleted
        }
        self._absorb(state, said)
        if said.to_json():
            self._ledger.enter(said)

    def _absorb(self, state: ArchiveState, said: Manifest) -> None:
        """Repeat what guests said long ago, so that their pages can go when that is known."""
        journals = Journal(self._archive.objects, MANIFESTS)
        numbers = {writer: pages.newest for writer, pages in journals.read().items()}
        for writer, newest in numbers.items():
            manifest = self._archive.manifests.said_by(writer)
            if (
                writer.startswith(GUEST)
                and writer not in state.everything.absorbed
                and writer != self._ledger.writer
                and manifest.at + self._rules.guests_ms < self._now
                and not journals.damaged(writer)
            ):
                said.merge(manifest)
                said.absorbed[writer] = (newest, self._now)

    def _is_past_grace(self, since: int) -> bool:
        return since + self._rules.grace_ms < self._now
