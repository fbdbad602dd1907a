from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.archive.archive import Archive
from broker.archive.backup import Backup
from broker.archive.compaction import Compaction, CompactionRules
from broker.archive.manifest_journal import ManifestWriter
from broker.archive.verification import Verification
from broker.archive.writer import ArchiveWriter
from broker.errors import ArchiveCorrupt, ArchiveUnavailable
from broker.testing.fragile_disk import FragileDisk
from tests.archive.events import HOUR, Wall, covering, events, everything_in, same


class Place:
    """With some files, and a second disk for its copy."""

    def __init__(self) -> None:
        self.wall = Wall()
        self.disk, self.elsewhere = FragileDisk(self.wall), FragileDisk(self.wall)
        self.archive = self.opened()
        self.writer = ArchiveWriter(self.archive, "aa", self.wall)
        self.made = 0
        for _ in range(6):
            self.write()

    def opened(self) -> Archive:
        return Archive.open("/archive", wall_clock=self.wall, disk=self.disk)

    def copy(self) -> Archive:
        return Archive.open("/copy", wall_clock=self.wall, disk=self.elsewhere)

    def write(self) -> None:
        made = events(range(self.made + 1, self.made + 10))
        self.made += 9
        self.writer.write(covering(made), made, {})

    def compact(self) -> None:
        self.wall.now += 2 * HOUR
        archive = self.opened()
        ledger = ManifestWriter(archive.manifests, "compactor", self.wall)
        assert (
            Compaction(archive, ledger, CompactionRules(min_files_in_open_hour=4)).run().files_after
        )

    def has(self, archive: Archive, made: int) -> None:
        assert same(everything_in(archive), events(range(1, made + 1)))
        assert Verification(archive).run(set_aside=False).faults == []


@pytest.fixture
def place() -> Place:
    return Place()


def test_a_copy_is_an_archive_with_the_same_events(place: Place) -> None:
    done = Backup(place.opened(), place.copy()).run()
    assert (done.files, done.there, done.pages, done.damaged) == (18, 0, 6, [])
    place.has(place.copy(), 54)
    assert place.copy().state().covered == place.archive.state().covered


def test_the_next_copy_transfers_only_new_objects(place: Place) -> None:
    Backup(place.opened(), place.copy()).run()
    place.write()
    place.compact()
    done = Backup(place.opened(), place.copy()).run()
    # Files of the last flush were merged: one for each stream.
    assert (done.files, done.there) == (3, 0)
    place.has(place.copy(), 63)
    assert len(place.copy().state().files) == 3
    again = Backup(place.opened(), place.copy()).run()
    assert (again.files, again.bytes, again.there, again.pages) == (0, 0, 3, 0)


def test_a_writer_to_the_copy_continues_where_the_archive_ended(place: Place) -> None:
    Backup(place.opened(), place.copy()).run()
    made = events(range(55, 60))
    ArchiveWriter(place.copy(), "aa", place.wall).write(covering(made), made, {})
    place.has(place.copy(), 59)


@pytest.mark.parametrize("what", [Place.write, Place.compact])
def test_a_change_while_pages_are_read_is_copied_completely(
    place: Place, monkeypatch: pytest.MonkeyPatch, what: Callable[[Place], None]
) -> None:
    source = place.opened()
    get, happened = source.objects.get, list[str]()

    def meanwhile(path: str) -> bytes:
        if not happened:
            happened.append(path)
            what(place)
        return get(path)

    source.state()
    monkeypatch.setattr(source.objects, "get", meanwhile)
    Backup(source, place.copy()).run()
    assert happened
    place.has(place.copy(), place.made)


def test_an_interrupted_copy_is_a_valid_archive(place: Place) -> None:
    Backup(place.opened(), place.copy()).run()
    place.write()
    for steps in range(6):
        target = place.copy()
        put, left = target.objects.put, [steps]

        def some(objects: Any, put: Any = put, left: list[int] = left) -> None:
            if not left[0]:
                raise ArchiveUnavailable("the disk is full")
            left[0] -= 1
            put(objects)

        target.objects.put = some  # type: ignore[method-assign]
        try:
            Backup(place.opened(), target).run()
        except ArchiveUnavailable:
            place.has(place.copy(), 54)
        else:
            break
    place.has(place.copy(), 63)


def test_damaged_files_are_reported_and_not_copied(place: Place) -> None:
    path = sorted(place.archive.state().files)[0]
    data = bytearray(place.archive.objects.get(path))
    data[len(data) // 2] ^= 1
    place.archive.objects.put([(path, bytes(data))])
    done = Backup(place.opened(), place.copy()).run()
    assert (done.damaged, done.files) == ([path], 17)
    (fault,) = Verification(place.copy()).run(set_aside=False).faults
    assert (fault.kind, fault.name) == ("missing", path)


def test_a_different_archive_is_not_overwritten(place: Place) -> None:
    target = place.copy()
    longer = events(range(1, 400))
    ArchiveWriter(target, "aa", place.wall).write(covering(longer), longer, {})
    with pytest.raises(ArchiveCorrupt, match="not a copy of this archive"):
        Backup(place.opened(), place.copy()).run()
