"""A node's log, an in-process archiver, and an archive on a simulated disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from broker.archive.archive import Archive
from broker.archiver.log_archiver import LogArchiver
from broker.dtd.reference import DtdReference
from broker.event.place import Mark
from broker.log.commit import Commit, ReplicaBatch, Retention
from broker.log.history import EPOCHS_SINCE_MS
from broker.log.log_file import LogFile
from broker.log.logged_event import LoggedEvent
from broker.log.own_key import OwnKey
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.batch_signer import BatchSigner
from broker.testing.fragile_disk import FragileDisk
from broker.testing.simulated_archive import LogView
from tests.archive.events import MORNING, Wall, event, everything_in, once

REFERENCE = DtdReference("event", "1.0")
TEXT = b"<!ELEMENT e EMPTY>"


class Site:
    """Several sites may share an archive."""

    def __init__(
        self,
        folder: Path,
        archive: Site | None = None,
        *,
        max_bytes: int = 1 << 30,
        unarchived_bytes: int = 0,
        key: SigningKey | None = None,
    ) -> None:
        """With `key` the archiver signs what the log has not signed."""
        self._archive_of = archive or self
        self.wall: Wall = archive.wall if archive else Wall()
        self._disk = FragileDisk(self.wall)
        # By this clock the log's epochs begin with 1.
        retention = Retention(max_bytes, unarchived_bytes=unarchived_bytes)
        own_key = OwnKey(key, signs_commits=False)
        self.log = LogFile(
            folder, retention, sync=False, wall_clock=lambda: EPOCHS_SINCE_MS, own_key=own_key
        )
        self.shown = LogView(self.log)
        self.origin = self.log.origin
        self._signer = None if key is None else BatchSigner(key, self.origin)
        self.made: list[LoggedEvent] = []
        """Also events that left the log."""
        self.texts: dict[DtdReference, bytes] = {REFERENCE: TEXT}
        self.asked: list[DtdReference] = []

    @property
    def disk(self) -> FragileDisk:
        return self._archive_of._disk

    @disk.setter
    def disk(self, disk: FragileDisk) -> None:
        self._archive_of._disk = disk

    def close(self) -> None:
        self.log.crash()

    def open(self) -> Archive:
        return Archive.open("/archive", wall_clock=self.wall, disk=self.disk)

    def archiver(self) -> LogArchiver:
        return LogArchiver(self.shown, self.open(), self._ask, self.wall, self._signer)

    def carry(self, archiver: LogArchiver | None = None, dead: Sequence[str] = ()) -> LogArchiver:
        archiver = archiver or self.archiver()
        while archiver.flush(dead):
            pass
        return archiver

    def log_more(self, count: int, *, epoch: int = 1, document: bytes | None = None) -> None:
        first = self.log.bounds.offset + 1
        serial = self.log.bounds.last + 1
        made = [
            event(number, origin=self.origin, epoch=epoch, document=document)
            for number in range(first, first + count)
        ]
        for number, each in enumerate(made, serial):
            each.serial = number
        commit = Commit(events=made, covered={self.origin: made[-1].mark})
        self.log.commit(commit, epoch, MORNING)
        self.made += made

    def keep(self, events: Sequence[LoggedEvent], after: Mark) -> None:
        """Store a replica of another node's events."""
        keeping = ReplicaBatch(events[0].origin, after, events[-1].mark, list(events))
        self.log.commit(Commit(replicas=[keeping]), self.log.bounds.epoch, MORNING)

    def store(self, durables: Mapping[str, bytes | None]) -> None:
        """For the client `c`, by name."""
        changes = [(b"c\0" + name.encode(), stored) for name, stored in durables.items()]
        self.log.commit(Commit(durables=changes), self.log.bounds.epoch, MORNING)

    def archived(self) -> list[LoggedEvent]:
        """Each place once."""
        return once(everything_in(self.open()))

    def offsets(self) -> list[int]:
        return [each.offset for each in everything_in(self.open()) if each.origin == self.origin]

    def covered(self) -> tuple[tuple[Mark, Mark], ...]:
        return tuple(self.open().state().covered.get(self.origin, ()))

    def _ask(self, wanted: Sequence[DtdReference], origin: str) -> Mapping[DtdReference, bytes]:
        self.asked += wanted
        return {each: self.texts[each] for each in wanted if each in self.texts}
