"""Expiry: retention, and deletion of objects that no reader can use any more.

A removed file is deleted after the grace period, if every reader's lease began later. An unlisted
file of that age is left from an aborted flush, and is deleted too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

import attrs

from broker.archive.archive import TEMPORARY_WRITER_PREFIX, Archive
from broker.archive.archive_state import ArchiveState
from broker.archive.journal import Journal, page_path
from broker.archive.layout import DURABLES, EVENTS, MANIFESTS, READERS
from broker.archive.manifest import Manifest
from broker.archive.manifest_journal import ManifestWriter
from broker.archive.object_store import INCOMING, StoredObject
from broker.archive.reader_lease import abandoned_leases, oldest_lease_start
from broker.archive.retention import DurableNeed, ExpiredHours, Retention, find_expired_hours
from broker.archive.unlisted_files import find_unlisted_files

_HOUR: Final = 3_600_000
#: Assumed ms of clock differences: a lease that began this soon after a removal counts as older.
_MAX_CLOCK_SKEW_MS: Final = 60_000
_DELETE_BATCH: Final = 500


@attrs.frozen
class ExpiryRules:
    retention: Retention = Retention()
    grace_ms: int = _HOUR
    """Ms for which removed and unlisted files stay."""
    aside_ms: int = 7 * 24 * _HOUR
    """Ms for which the bytes of damaged files stay, for inspection."""
    temporary_writers_ms: int = 24 * _HOUR
    """Ms of silence after which a temporary writer's manifests are absorbed."""


@attrs.define
class ExpiryResult:
    """Objects that an expiry removed and deleted, or would."""

    removed: list[str] = attrs.field(factory=list)
    """Paths that retention removed. They are deleted after the grace period."""
    removed_bytes: int = 0
    held: str = ""
    """The hour that would expire if no durable subscription needed it."""
    deleted: list[str] = attrs.field(factory=list)
    deleted_bytes: int = 0
    orphans: int = 0
    """Number of deleted files that no manifest lists."""
    kept_orphans: int = 0
    """Number of unlisted files that stay, since a damaged manifest may list them."""


class Expiry:
    """Expiry of one archive, by one writer."""

    def __init__(
        self,
        archive: Archive,
        manifest_writer: ManifestWriter,
        rules: ExpiryRules,
        needed: Sequence[DurableNeed] = (),
    ) -> None:
        """`needed` is the unprocessed part of each durable subscription."""
        self._archive = archive
        self._manifest_writer = manifest_writer
        self._rules = rules
        self._needed = needed
        self._now = archive.wall_clock()

    def plan(self) -> ExpiryResult:
        return self._expire(really=False)

    def run(self, progress: Callable[[int, int], object] = lambda done, of: None) -> ExpiryResult:
        """Expire files; `progress` receives deleted and total objects. Raises
        `ArchiveUnavailable`."""
        return self._expire(really=True, progress=progress)

    def _expire(
        self, really: bool, progress: Callable[[int, int], object] = lambda done, of: None
    ) -> ExpiryResult:
        self._now = self._archive.wall_clock()
        objects = self._archive.objects
        # Files put after the listing are younger than the grace.
        stored = objects.list_objects(EVENTS)
        leases = oldest_lease_start(objects, self._now)
        state = self._archive.state()
        if really and (state.problems or state.missing_ranges):
            state = self._relist_files(state)
        expired = ExpiryResult()
        old = self._apply_retention(state, expired)
        deletable = [
            *self._find_deletable_files(state, stored, leases, expired),
            *self._find_deletable_pages(state),
            *(
                each
                for each in objects.list_objects(INCOMING)
                if self._is_past_grace(each.modified)
            ),
        ]
        expired.deleted = [each.path for each in deletable]
        expired.deleted_bytes = sum(each.bytes for each in deletable)
        if really:
            stored_paths = {each.path for each in stored}
            self._delete_and_record(
                state, old, stored_paths - set(expired.deleted), deletable, progress
            )
        return expired

    def _relist_files(self, state: ArchiveState) -> ArchiveState:
        """List the files of lost manifests again; if all are readable, give these manifests up."""
        found = find_unlisted_files(self._archive.objects, state)
        new_manifest = found.manifest
        if not found.unreadable:
            new_manifest.given_up = set(state.problems)
        if new_manifest.adds or new_manifest.given_up:
            self._manifest_writer.write(new_manifest)
        return self._archive.state()

    def _apply_retention(self, state: ArchiveState, expired: ExpiryResult) -> ExpiredHours:
        listed = [*state.files.values()]
        listed += [file for p in state.aside if (file := state.manifest.adds.get(p))]
        old = find_expired_hours(listed, self._rules.retention, self._needed, self._now)
        expired.removed = [file.path for file in old.files]
        expired.removed_bytes = sum(file.bytes for file in old.files)
        expired.held = old.held_hour
        return old

    def _find_deletable_files(
        self, state: ArchiveState, stored: list[StoredObject], leases: int, expired: ExpiryResult
    ) -> list[StoredObject]:
        everything = state.manifest
        deletable: list[StoredObject] = []
        for each in stored:
            removed, aside = everything.removes.get(each.path), state.aside.get(each.path)
            if removed is not None:
                if self._is_past_grace(removed) and removed + _MAX_CLOCK_SKEW_MS < leases:
                    deletable.append(each)
            elif aside is not None:
                if aside.at + self._rules.aside_ms < self._now:
                    deletable.append(each)
            elif each.path not in state.files and self._is_past_grace(each.modified):
                if state.problems:
                    expired.kept_orphans += 1
                else:
                    expired.orphans += 1
                    deletable.append(each)
        return deletable

    def _find_deletable_pages(self, state: ArchiveState) -> list[StoredObject]:
        objects = self._archive.objects
        deletable: set[str] = set(abandoned_leases(objects, self._now))
        for folder in (MANIFESTS, DURABLES):
            for writer, pages in Journal(objects, folder).read().items():
                unread = 1
                if folder == MANIFESTS and self._is_absorbed(state, writer, pages.newest):
                    unread = pages.newest + 1
                elif pages.pages and pages.pages[0].snapshot:
                    unread = pages.pages[0].number
                deletable |= {page_path(folder, writer, number) for number in range(1, unread)}
        found = chain.from_iterable(map(objects.list_objects, (MANIFESTS, DURABLES, READERS)))
        return [
            each for each in found if each.path in deletable and self._is_past_grace(each.modified)
        ]

    def _is_absorbed(self, state: ArchiveState, writer: str, newest: int) -> bool:
        number, at = state.manifest.absorbed.get(writer, (0, 0))
        return number == newest and self._is_past_grace(at)

    def _delete_and_record(
        self,
        state: ArchiveState,
        old: ExpiredHours,
        stored_paths: set[str],
        deletable: list[StoredObject],
        progress: Callable[[int, int], object],
    ) -> None:
        for start in range(0, len(deletable), _DELETE_BATCH):
            self._archive.objects.delete([e.path for e in deletable[start : start + _DELETE_BATCH]])
            progress(min(start + _DELETE_BATCH, len(deletable)), len(deletable))
        removed_paths = [*(file.path for file in old.files), *state.healed_files]
        new_manifest = Manifest(removes=dict.fromkeys(removed_paths, self._now))
        new_manifest.add_forgets(old.forgotten_ranges)
        new_manifest.deleted = {
            path
            for path in state.manifest.removes
            if path not in stored_paths and path not in state.manifest.deleted
        }
        self._absorb_temporary_writers(state, new_manifest)
        if new_manifest.to_json():
            self._manifest_writer.write(new_manifest)

    def _absorb_temporary_writers(self, state: ArchiveState, new_manifest: Manifest) -> None:
        """Copy the manifests of silent temporary writers: their pages can then be deleted."""
        journals = Journal(self._archive.objects, MANIFESTS)
        numbers = {writer: pages.newest for writer, pages in journals.read().items()}
        for writer, newest in numbers.items():
            manifest = self._archive.manifests.manifest_of(writer)
            if (
                writer.startswith(TEMPORARY_WRITER_PREFIX)
                and writer not in state.manifest.absorbed
                and writer != self._manifest_writer.writer
                and manifest.at + self._rules.temporary_writers_ms < self._now
                and not journals.is_damaged(writer)
            ):
                new_manifest.merge(manifest)
                new_manifest.absorbed[writer] = (newest, self._now)

    def _is_past_grace(self, since: int) -> bool:
        return since + self._rules.grace_ms < self._now
