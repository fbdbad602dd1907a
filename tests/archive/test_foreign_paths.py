"""Manifests and links that name files outside of the archive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest

from broker.archive.archive import Archive
from broker.archive.backup import Backup
from broker.archive.disk import Disk
from broker.archive.expiry import Expiry, ExpiryRules
from broker.archive.journal import Page, page_path
from broker.archive.layout import check_object_path
from broker.archive.maintenance_lease import MaintenanceLease
from broker.archive.manifest_journal import ManifestWriter
from broker.archive.object_store import LocalObjectStore, ObjectStore, RemoteObjectStore
from broker.archive.reader_lease import oldest_lease_start
from broker.archive.verification import Verification
from broker.archive.writer import ArchiveWriter
from broker.dtd.reference import DtdReference
from broker.errors import ArchiveCorrupt
from tests.archive.events import HOUR, MORNING, covering, event, everything_in, same

SECRET = b"not of the archive"
OUTSIDE = ["../secret", "/etc/passwd", "events/../../secret", "events/./x", "events//x", "events/*"]


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.secret = folder.parent / "secret"
        self.secret.write_bytes(SECRET)
        self.now = MORNING
        self.events = [event(n, document=b"<e>%d</e>" % n) for n in range(1, 5)]
        text = {DtdReference("event", "1.0"): b"<!ELEMENT e ANY>"}
        ArchiveWriter(self.opened(), "aa", lambda: MORNING).write(
            covering(self.events), self.events, text
        )

    def opened(self) -> Archive:
        return Archive.open(str(self.folder), wall_clock=lambda: self.now)

    def forge(self, change: Callable[[dict[str, Any]], object]) -> str:
        """Write a manifest of another writer, sound but for the change; return its path."""
        forged = self.opened().manifests.read_state().manifest.to_json()
        change(forged)
        path = page_path("manifests", "evil", 1)
        (self.folder / path).parent.mkdir()
        (self.folder / path).write_bytes(Page(1, False, forged).encode())
        return path


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "archive")


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        *((entry, path) for entry in ("path", "partition", "hour", "dtd") for path in OUTSIDE),
        *((entry, "manifests/aa/000000000001.json") for entry in ("path", "dtd")),
        ("path", "events"),
    ],
)
def test_a_manifest_that_names_a_file_outside_is_refused_as_damaged(
    site: Site, entry: str, path: str, tmp_path: Path
) -> None:
    def change(forged: dict[str, Any]) -> None:
        if entry == "dtd":
            forged["dtds"][0][5] = path
        else:
            forged["adds"][0][entry] = path

    page = site.forge(change)
    archive = site.opened()
    assert list(archive.state().problems) == [page]
    assert "is not the path of an object" in archive.state().problems[page]
    assert same(everything_in(archive), site.events)
    (fault,) = Verification(archive).run().faults
    assert (fault.kind, fault.name) == ("manifest", page)
    done = Backup(archive, Archive.open(str(tmp_path / "copy"))).run()
    assert (done.files, done.damaged) == (1, [])
    site.now += 48 * HOUR
    Expiry(
        archive, ManifestWriter(archive.manifests, "carer-aa", lambda: site.now), ExpiryRules()
    ).run()
    assert site.secret.read_bytes() == SECRET


@pytest.mark.parametrize(
    "entry",
    [
        {"at": float("inf")},
        {"covers": [["aa", [1], [1, 9]]]},
        {"covers": [["aa", [1, 0], [1, float("inf")]]]},
        {"covers": {"aa": 1}},
        {"adds": [[]]},
        {"ends": [["aa", 1]]},
        {"absorbed": [["aa", float("-inf"), 1]]},
    ],
)
def test_a_manifest_with_impossible_entries_counts_as_damaged(
    site: Site, entry: dict[str, Any]
) -> None:
    page = site.forge(lambda forged: forged.update(entry))
    assert list(site.opened().state().problems) == [page]
    assert same(everything_in(site.opened()), site.events)


@pytest.mark.parametrize("until", [b"1e999", b"[" * 100_000, b"{}", b'"x"'])
def test_an_impossible_lease_stops_no_maintenance(site: Site, until: bytes) -> None:
    archive = site.opened()
    archive.objects.put(
        [
            ("readers/evil.json", b'{"began": 1, "until": ' + until + b"}"),
            ("care.json", b'{"carer": "evil", "expired": 0, "until": ' + until + b"}"),
        ]
    )
    assert MaintenanceLease(archive.objects, "aa", lambda: site.now).acquire()
    assert oldest_lease_start(archive.objects, site.now) in (0, site.now)


def local(root: Path) -> ObjectStore:
    return LocalObjectStore(root, Disk())


def remote(root: Path) -> ObjectStore:
    system = pyarrow.fs.SubTreeFileSystem(str(root.parent), pyarrow.fs.LocalFileSystem())
    return RemoteObjectStore(system, root.name, f"test://{root.name}")


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("open_store", [local, remote])
def test_a_store_reads_writes_and_deletes_nothing_outside(
    open_store: Callable[[Path], ObjectStore], path: str, tmp_path: Path
) -> None:
    root = tmp_path / "archive"
    (root / "events").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(SECRET)
    store = open_store(root)
    for call in (
        lambda: store.get(path),
        lambda: store.open(path),
        lambda: store.delete([path]),
        lambda: store.put_new(path, b"x"),
        lambda: store.put([("events/a", b"x"), (path, b"x")]),
    ):
        with pytest.raises(ArchiveCorrupt, match="is not the path of an object"):
            call()
    assert (tmp_path / "secret").read_bytes() == SECRET
    assert not (root / "incoming").exists() or list((root / "incoming").iterdir()) == []


@pytest.mark.parametrize("link", ["events/a.parquet", "events"])
def test_an_object_behind_a_symbolic_link_is_neither_read_nor_deleted(
    link: str, tmp_path: Path
) -> None:
    root, outside = tmp_path / "archive", tmp_path / "outside"
    for folder in (root, outside):
        folder.mkdir()
    (outside / "a.parquet").write_bytes(SECRET)
    (root / link).parent.mkdir(exist_ok=True)
    (root / link).symlink_to(outside if link == "events" else outside / "a.parquet")
    store = local(root)
    assert store.list_objects("") == []
    if link == "events":
        with pytest.raises(ArchiveCorrupt, match="symbolic link"):
            store.list_objects("events")
    else:
        assert store.list_objects("events") == []
    for call in (
        lambda: store.get("events/a.parquet"),
        lambda: store.delete(["events/a.parquet"]),
        lambda: store.put([("events/a.parquet", b"x")]),
    ):
        with pytest.raises(ArchiveCorrupt, match="symbolic link"):
            call()
    assert (outside / "a.parquet").read_bytes() == SECRET


def test_the_root_of_an_archive_may_be_a_symbolic_link(site: Site, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(site.folder)
    assert same(everything_in(Archive.open(str(link))), site.events)


@pytest.mark.parametrize("stores", [local, remote])
def test_a_file_that_is_no_object_is_not_listed(
    stores: Callable[[Path], ObjectStore], tmp_path: Path
) -> None:
    root = tmp_path / "archive"
    (root / "events").mkdir(parents=True)
    for name in ("an object", "b*", "object"):
        (root / "events" / name).write_bytes(b"x")
    assert [each.path for each in stores(root).list_objects("events")] == ["events/object"]


def test_paths_of_earlier_versions_are_paths_of_objects() -> None:
    for path in (
        "archive.json",
        "events/asdi.zbw.+/2026-11-20T07/0a1b-1-2-3-ffff.parquet",
        "events/+/2026-11-20T07/who.is@x-1-2-3-ffff.parquet",
        "dtds/event/1.0-" + "a" * 64 + ".dtd",
        "manifests/carer-aa/000000000001.json",
    ):
        assert check_object_path(path) == path
