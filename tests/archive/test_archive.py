from __future__ import annotations

import json
from pathlib import Path

import pyarrow.fs
import pytest

from broker.archive.archive import Archive
from broker.archive.compaction import Compaction, CompactionRules
from broker.archive.expiry import Expiry, ExpiryRules
from broker.archive.manifest import Manifest
from broker.archive.manifest_journal import ManifestWriter
from broker.archive.object_store import RemoteObjectStore
from broker.archive.reader_lease import LEASE_MS, oldest_lease_start
from broker.archive.verification import Verification
from broker.archive.writer import ArchiveWriter
from broker.errors import ArchiveCorrupt, ArchiveUnavailable, ConfigurationError
from broker.testing.fragile_disk import FragileDisk
from tests.archive.events import HOUR, Wall, covering, event, everything_in, same


def test_an_empty_uri_is_rejected() -> None:
    with pytest.raises(ConfigurationError):
        Archive.open("")


@pytest.mark.parametrize("uri", ["nonsense://x/y", "s3n:/x://", "http://example.org/archive"])
def test_an_unknown_uri_scheme_is_rejected(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="not a valid archive URI"):
        Archive.open(uri)


def test_an_archive_is_created_only_on_request(tmp_path: Path) -> None:
    with pytest.raises(ArchiveUnavailable, match="there is no archive"):
        Archive.open(str(tmp_path / "a"), create=False)
    assert list(tmp_path.iterdir()) == []
    Archive.open(str(tmp_path / "a"))
    assert Archive.open(str(tmp_path / "a"), create=False).state().files == {}


@pytest.mark.parametrize("folder", ["manifests", "durables"])
@pytest.mark.parametrize("keep", [None, 0, 20])
def test_a_lost_marker_of_an_existing_archive_is_written_again(
    keep: int | None, folder: str
) -> None:
    disk = FragileDisk(Wall())
    archive = Archive.open("/archive", disk=disk)
    archive.objects.put([(f"{folder}/aa/000000000001.json", b"{}")])
    marker, place = archive.objects.get("archive.json"), Path("/archive/archive.json")
    if keep is None:
        disk.remove(place)
    else:
        disk.damage_file(place, lambda data: data[:keep])
    archive.check_exists()
    assert archive.objects.get("archive.json") == marker
    disk.remove(place)
    assert Archive.open("/archive", create=False, disk=disk).objects.get("archive.json") == marker


def test_a_truncated_marker_of_an_empty_archive_is_written_again() -> None:
    disk = FragileDisk(Wall())
    archive = Archive.open("/archive", disk=disk)
    marker = archive.objects.get("archive.json")
    disk.damage_file(Path("/archive/archive.json"), lambda data: data[:23])
    archive.check_exists()
    assert archive.objects.get("archive.json") == marker


@pytest.mark.parametrize("marker", [b"", b"[]", b'{"format": "xmlbroker-archive-9"}', b"\xff"])
def test_an_invalid_marker_is_not_overwritten(tmp_path: Path, marker: bytes) -> None:
    (tmp_path / "archive.json").write_bytes(marker)
    with pytest.raises(ArchiveCorrupt):
        Archive.open(str(tmp_path))
    assert (tmp_path / "archive.json").read_bytes() == marker


def test_a_folder_that_is_not_writable_raises_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveUnavailable):
        Archive.open(str(tmp_path / "file" / "archive"))


def test_uris_with_special_characters_are_folders(tmp_path: Path) -> None:
    folder = tmp_path / "a b%20c+é"
    archive = Archive.open(folder.as_uri())
    assert (folder / "archive.json").is_file()
    assert Archive.open(archive.uri, create=False).uri == archive.uri == folder.as_uri()


def test_the_state_is_the_same_object_until_something_changes(tmp_path: Path) -> None:
    archive = Archive.open(str(tmp_path))
    before = archive.state()
    assert archive.state() is before
    ArchiveWriter(Archive.open(str(tmp_path)), "aa", Wall()).write([("aa", (1, 0), (1, 1))], [], {})
    assert archive.state().covers("aa", (1, 0), (1, 1))
    assert not before.covers("aa", (1, 0), (1, 1))


def test_a_lease_ends_with_its_reader_and_is_renewed_seldom(tmp_path: Path) -> None:
    wall = Wall()
    archive = Archive.open(str(tmp_path), wall_clock=wall)
    began = wall.now
    with archive.open_reader_lease() as lease:
        [path] = (tmp_path / "readers").iterdir()
        said = path.read_bytes()
        wall.now += 1000
        lease.renew()
        assert path.read_bytes() == said
        wall.now += LEASE_MS - 2000
        lease.renew()
        assert json.loads(path.read_bytes())["began"] == began
        wall.now += LEASE_MS - 1
        assert oldest_lease_start(archive.objects, wall.now) == began
        wall.now += 2
        assert oldest_lease_start(archive.objects, wall.now) == wall.now
    assert not list(tmp_path.glob("readers/*"))


def test_an_unreadable_lease_protects_everything(tmp_path: Path) -> None:
    archive = Archive.open(str(tmp_path))
    archive.objects.put([("readers/x.json", b"{")])
    assert oldest_lease_start(archive.objects, archive.wall_clock()) == 0


@pytest.mark.parametrize("said", [{"adds": [{}]}, {"covers": [["aa"]]}, {"adds": 3}, {"at": "x"}])
def test_a_manifest_of_another_format_is_corrupt(said: dict[str, object]) -> None:
    with pytest.raises(ArchiveCorrupt):
        Manifest.from_json(said)


def test_a_corrupt_manifest_does_not_hide_the_others(tmp_path: Path) -> None:
    archive = Archive.open(str(tmp_path))
    writer = ArchiveWriter(archive, "aa", Wall())
    writer.write(covering([event(1)]), [event(1)], {})
    strange = ArchiveWriter(archive, "bb", Wall())
    strange.manifest_writer._journal.put_page({"adds": [{"path": 1}]}, dict)
    state = archive.state()
    assert list(state.problems) == ["manifests/bb/000000000001.json"]
    assert same(everything_in(archive), [event(1)])


@pytest.mark.parametrize("kind", ["folder", "store"])
def test_an_archive_works_on_any_file_system(tmp_path: Path, kind: str) -> None:
    wall = Wall()
    system = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    objects = RemoteObjectStore(system, "archive", "test://archive/?region=here")
    if kind == "store":
        # Object stores create no folders and rename no objects.
        objects._puts_atomically = True
        for folder in ("events/s/2026-11-20T07", "durables/aa", "readers"):
            system.create_dir(f"archive/{folder}")
        for name in ("aa", "bb", "cc"):
            system.create_dir(f"archive/manifests/{name}")
    archive = Archive(objects, wall)
    archive.create_if_missing()
    writer = ArchiveWriter(archive, "aa", wall)
    made = [event(n) for n in range(1, 7)]
    for some in (made[:3], made[3:]):
        writer.write(covering(some), some, {})
        writer.put_durables([("desk", "alarms", b"1")])
    wall.now += 2 * HOUR
    Compaction(archive, ManifestWriter(archive.manifests, "bb", wall), CompactionRules()).run()
    assert Verification(archive).run().faults == []
    assert same(everything_in(archive), made)
    assert archive.uri == "test://archive"
    assert len(archive.state().files) == 1
    # The store uses this machine's clock.
    wall.now = max(each.modified for each in objects.list_objects("")) + 2 * HOUR
    expiry = Expiry(archive, ManifestWriter(archive.manifests, "cc", wall), ExpiryRules())
    assert len(expiry.run().deleted) == 2
    assert len(objects.list_objects("events")) == 1
    assert (kind == "folder") == (tmp_path / "archive/incoming").exists()
    with pytest.raises(ArchiveUnavailable):
        for _ in range(2):
            objects.put_new("archive.json", b"")
