from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import attrs
import pytest

from broker.archive.archive import Archive
from broker.archive.manifest_entry import ArchivedFile
from broker.archive.table import batch_to_events
from broker.archive.verification import Verification, check_file
from broker.archive.writer import ArchiveWriter
from broker.dtd.reference import DtdReference
from broker.errors import ArchiveCorrupt, ArchiveObjectMissing
from tests.archive.events import MORNING, covering, event, everything_in, same

TEXT = DtdReference("event", "1.0")


def clock() -> int:
    return MORNING


class Place:
    """Five files of four events."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.archive = self.opened()
        writer = ArchiveWriter(self.archive, "aa", clock)
        self.made = [event(n, document=b"<e>%d</e>" % n * 50) for n in range(1, 21)]
        self.paths: list[str] = []
        for start in range(0, 20, 4):
            some = self.made[start : start + 4]
            self.paths += writer.write(covering(some), some, {TEXT: b"<!ELEMENT e ANY>"}).files

    def opened(self) -> Archive:
        return Archive.open(str(self.folder), wall_clock=clock)

    def file(self, number: int) -> ArchivedFile:
        return self.opened().state().files[self.paths[number]]

    def change(self, number: int, damage: Callable[[bytes], bytes]) -> None:
        path = self.folder / self.paths[number]
        path.write_bytes(damage(path.read_bytes()))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_sound_archive_has_no_fault(place: Place) -> None:
    progress: list[tuple[int, int]] = []
    done = Verification(place.opened()).run(lambda done, of: progress.append((done, of)))
    assert done.faults == []
    assert (done.files, done.rows, done.dtds) == (5, 20, 1)
    assert progress[-1] == (done.bytes, done.bytes)


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-5],
        flipped,
        lambda data: b"",
        lambda data: data[:100],
        lambda data: data + b"x",
    ],
    ids=["truncated", "flipped", "empty", "short", "longer"],
)
def test_a_damaged_file_is_found_and_the_rest_is_read(
    place: Place, damage: Callable[[bytes], bytes]
) -> None:
    place.change(2, damage)
    with pytest.raises(ArchiveCorrupt, match=place.paths[2]):
        list(place.opened().read(place.file(2), checked=True))
    [fault] = Verification(place.opened()).run().faults
    assert (fault.kind, fault.name) == ("file", place.paths[2])
    archive = place.opened()
    assert list(archive.state().aside) == [place.paths[2]]
    assert same(everything_in(archive), place.made[:8] + place.made[12:])
    assert archive.state().covered_upto("aa", (1, 0)) == (1, 8)
    assert archive.state().lost_ranges == {"aa": (((1, 8), (1, 12)),)}
    # The file stays set aside, and its range missing.
    again = Verification(place.opened()).run()
    assert [each.kind for each in again.faults] == ["aside", "hole"]


def test_a_missing_file_is_reported(place: Place) -> None:
    (place.folder / place.paths[0]).unlink()
    with pytest.raises(ArchiveObjectMissing):
        list(place.opened().read(place.file(0)))
    [fault] = Verification(place.opened()).run(set_aside=False).faults
    assert (fault.kind, fault.name) == ("missing", place.paths[0])
    assert place.opened().state().aside == {}


def test_a_bit_anywhere_in_a_file_is_found(place: Place) -> None:
    file, archive = place.file(1), place.opened()
    path = place.folder / file.path
    whole = path.read_bytes()
    random = Random(1)
    for _ in range(60):
        at = random.randrange(len(whole))
        path.write_bytes(
            whole[:at] + bytes([whole[at] ^ 1 << random.randrange(8)]) + whole[at + 1 :]
        )
        with pytest.raises(ArchiveCorrupt):
            check_file(archive, file)
    path.write_bytes(whole)
    check_file(archive, file)


def test_unchecked_reading_of_damage_raises_only_archive_corrupt(place: Place) -> None:
    """A flipped bit may change a value without the hash."""
    file, archive = place.file(1), place.opened()
    path = place.folder / file.path
    whole = path.read_bytes()
    random, refused = Random(2), 0
    for _ in range(150):
        at = random.randrange(len(whole))
        path.write_bytes(
            whole[:at] + bytes([whole[at] ^ 1 << random.randrange(8)]) + whole[at + 1 :]
        )
        try:
            for batch in archive.read(file):
                batch_to_events(batch)
        except ArchiveCorrupt:
            refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"rows": 5}, "do not match its manifest"),
        ({"spans": {"aa": ((1, 1), (1, 5))}}, "do not match its manifest"),
        ({"levels": (0,)}, "do not match its manifest"),
        ({"arrivals": (MORNING, MORNING + 1)}, "do not match its manifest"),
        ({"partition": "t"}, "belongs to another"),
        ({"hour": "2026-11-20T08"}, "do not match its manifest"),
    ],
)
def test_a_wrong_manifest_entry_is_found(place: Place, lie: dict[str, object], reason: str) -> None:
    with pytest.raises(ArchiveCorrupt, match=reason):
        check_file(place.opened(), attrs.evolve(place.file(0), **lie))  # type: ignore[arg-type]


def test_a_damaged_dtd_is_reported_and_not_returned(place: Place) -> None:
    [path] = (place.folder / "dtds").rglob("*.dtd")
    path.write_bytes(b"<!ELEMENT e EMPTY>")
    with pytest.raises(ArchiveCorrupt):
        place.opened().read_dtd(TEXT)
    assert [each.kind for each in Verification(place.opened()).run().faults] == ["dtd"]
    path.unlink()
    assert [each.kind for each in Verification(place.opened()).run().faults] == ["dtd"]


def test_a_damaged_or_missing_manifest_is_reported_and_the_others_are_used(place: Place) -> None:
    manifests = sorted((place.folder / "manifests/aa").iterdir())
    manifests[1].write_bytes(b"{}")
    manifests[3].unlink()
    done = Verification(place.opened()).run()
    assert [each.kind for each in done.faults] == ["manifest", "manifest", "hole", "hole"]
    expected = [*place.made[:4], *place.made[8:12], *place.made[16:]]
    assert same(everything_in(place.opened()), expected)
