"""Damaged parts of the archive are written again by any node that still has them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker.archive.compaction import Compaction, CompactionRules
from broker.archive.manifest_journal import ManifestWriter
from broker.archive.verification import Verification
from broker.archiver import log_archiver
from broker.errors import ArchiveCorrupt, ArchiveUnavailable
from broker.testing.fragile_disk import FragileDisk
from tests.archive.events import HOUR, same
from tests.archiver.archived_node import REFERENCE, TEXT, Site


def damaged(site: Site, offset: int) -> None:
    """Mark the file with this place as damaged, as a reader does."""
    archive = site.open()
    for file in archive.state().files.values():
        after, upto = file.intervals.get(site.origin, ((0, 0), (0, 0)))
        if after[1] < offset <= upto[1]:
            archive.set_aside(file, "for the test")


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("portion", [1, 2, 100])
def test_a_damaged_file_is_written_again(
    site: Site, monkeypatch: pytest.MonkeyPatch, portion: int, restarted: bool
) -> None:
    archiver = site.archiver()
    for _ in range(4):
        site.log_more(3)
        site.carry(archiver)
    damaged(site, 5)
    assert site.covered() == (((0, 0), (1, 3)), ((1, 6), (1, 12)))
    assert site.open().state().healing_origins(site.wall.now) == {site.origin}
    monkeypatch.setattr(log_archiver, "FLUSH_EVENTS", portion)
    archiver = site.carry(None if restarted else archiver)
    assert site.offsets() == list(range(1, 13))
    assert site.covered() == (((0, 0), (1, 12)),)
    assert site.open().state().healing_origins(site.wall.now) == frozenset()
    assert Verification(site.open()).run().faults == []
    before = site.disk.step_count
    site.carry(archiver)
    assert site.disk.step_count == before


def test_each_origin_writes_its_part_of_a_shared_file_again(site: Site, keeper: Site) -> None:
    for each in (site, keeper):
        for _ in range(2):
            each.log_more(2)
            each.carry()
    archive = site.open()
    ledger = ManifestWriter(archive.manifests, "compactor-1", site.wall)
    site.wall.now += 2 * HOUR
    assert Compaction(archive, ledger, CompactionRules(min_files_in_open_hour=2)).run().merges
    (file,) = archive.state().files.values()
    assert set(file.spans) == {site.origin, keeper.origin}
    archive.set_aside(file, "for the test")
    site.carry()
    state = site.open().state()
    assert set(state.lost_ranges) == {keeper.origin}
    assert site.covered() == (((0, 0), (1, 4)),)
    keeper.carry()
    assert site.open().state().lost_ranges == {}
    everything = sorted(site.made + keeper.made, key=lambda event: (event.origin, event.mark))
    assert same(sorted(site.archived(), key=lambda event: (event.origin, event.mark)), everything)


def test_only_events_left_in_the_log_are_written_again(tmp_path: Path) -> None:
    site = Site(tmp_path, max_bytes=100_000)
    for _ in range(4):
        site.log_more(5, document=bytes(4_000))
    archiver = site.carry()
    damaged(site, 1)
    for _ in range(2):
        site.log_more(5, document=bytes(4_000))
    since = site.log.begins_after[site.origin]
    assert 0 < since[1] < 20
    site.carry(archiver)
    assert site.covered()[-1] == (since, (1, 30))
    assert site.open().state().lost_ranges == {site.origin: (((1, 0), since),)}
    assert site.offsets() == list(range(since[1] + 1, 31))
    site.close()


def test_a_replica_restores_damaged_events_of_a_dead_origin(site: Site, keeper: Site) -> None:
    site.log_more(6)
    keeper.keep(site.made[2:], (1, 2))
    site.carry()
    damaged(site, 1)
    keeper.carry()
    assert site.offsets() == []
    keeper.carry(dead=[site.origin])
    assert site.offsets() == [3, 4, 5, 6]
    assert site.covered()[-1] == ((1, 2), (1, 6))


def pages(site: Site) -> list[str]:
    return sorted(
        each.path for each in site.open().objects.list_objects(f"manifests/{site.origin}")
    )


def lose(site: Site, path: str, keep: int | None) -> None:
    """Delete the manifest with None."""
    place = Path("/archive") / path
    if keep is None:
        site.disk.remove(place)
    else:
        site.disk.damage_file(place, lambda data: data[:keep])


@pytest.mark.parametrize("keep", [None, 0, 40])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_lost_manifest_is_written_again_by_its_archiver(
    site: Site, keep: int | None, which: int
) -> None:
    archiver = site.archiver()
    for _ in range(3):
        site.log_more(3)
        site.carry(archiver)
    reader = site.open()
    assert reader.state().covered[site.origin] == (((0, 0), (1, 9)),)
    files = len(reader.state().files)
    lose(site, pages(site)[which], keep)
    assert reader.state().covered[site.origin] != (((0, 0), (1, 9)),)
    site.carry(archiver)
    for archive in (reader, site.open()):
        state = archive.state()
        assert state.covered[site.origin] == (((0, 0), (1, 9)),)
        assert state.problems == {}
        assert len(state.files) == files
    assert site.offsets() == list(range(1, 10))


@pytest.mark.parametrize("keep", [None, 0, 40])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_after_a_restart_uncovered_events_are_written_again(
    site: Site, keep: int | None, which: int
) -> None:
    for _ in range(3):
        site.log_more(3)
        site.carry()
    lose(site, pages(site)[which], keep)
    site.log_more(1)
    site.carry()
    assert site.covered() == (((0, 0), (1, 10)),)
    assert site.offsets() == list(range(1, 11))


def test_a_missing_file_is_written_again_after_compaction_finds_it(site: Site) -> None:
    for _ in range(2):
        site.log_more(2)
        archiver = site.carry()
    site.wall.now += 2 * HOUR
    archive = site.open()
    lost, _ = archive.state().files
    archive.objects.delete([lost])
    ledger = ManifestWriter(archive.manifests, "compactor-1", site.wall)
    done = Compaction(archive, ledger, CompactionRules(min_files_in_open_hour=2)).run()
    assert done.damaged == [lost]
    site.carry(archiver)
    assert site.covered() == (((0, 0), (1, 4)),)
    assert sorted(site.offsets()) == [1, 2, 3, 4]


@pytest.mark.parametrize("told_apart", [True, False])
def test_clones_that_archive_under_one_name_lose_nothing(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told_apart: bool
) -> None:
    """An object store may accept two simultaneous writes of a page: the later one stays."""
    if not told_apart:
        monkeypatch.setattr(FragileDisk, "rename_new", FragileDisk.rename)
    site.log_more(3)
    site.carry()
    shutil.copytree(tmp_path / "own", tmp_path / "copy")
    twin = Site(tmp_path / "copy", site)
    clones = {2: (site, site.archiver()), 3: (twin, twin.archiver())}
    for _ in range(4):
        for epoch, (each, archiver) in clones.items():
            each.log_more(2, epoch=epoch)
            site.wall.now += 1
            try:
                archiver.flush()
            except ArchiveUnavailable:
                # A page with that number exists.
                continue
    for _ in range(3):
        for each, archiver in clones.values():
            each.carry(archiver)
    marks = {event.mark for event in site.archived()}
    assert marks >= {(epoch, offset) for epoch in clones for offset in range(4, 12)}
    state = site.open().state()
    for epoch in clones:
        assert state.covered_upto(site.origin, (epoch, 3)) >= (epoch, 11)
    assert state.problems == {}
    twin.close()


@pytest.mark.parametrize("keep", [None, 0, 5])
def test_a_lost_dtd_is_written_again_by_any_node_that_has_it(
    site: Site, keeper: Site, keep: int | None
) -> None:
    site.log_more(2)
    site.carry()
    archiver = keeper.carry()
    [text] = site.open().state().manifest.dtds
    lose(site, text.path, keep)
    keeper.texts.clear()
    site.wall.now += log_archiver.RETRY_MS
    keeper.carry(archiver)
    with pytest.raises(ArchiveCorrupt):
        site.open().read_dtd(REFERENCE)
    keeper.texts[REFERENCE] = TEXT
    site.wall.now += log_archiver.RETRY_MS
    keeper.carry(archiver)
    assert site.open().read_dtd(REFERENCE) == TEXT
    steps = site.disk.step_count
    site.wall.now += log_archiver.RETRY_MS
    keeper.carry(archiver)
    assert site.disk.step_count == steps


def test_the_lost_end_of_a_dead_origin_is_reported(site: Site, keeper: Site) -> None:
    for _ in range(2):
        site.log_more(3)
        site.carry()
    keeper.carry()
    archive = site.open()
    newest = pages(site)[-1]
    lose(site, newest, None)
    archive.objects.delete([p for p, f in archive.state().files.items() if f.spans[site.origin]])
    # Another archiver may already have seen the end.
    for _ in range(2):
        assert site.open().state().lost_ends == {site.origin: (1, 6)}
        keeper.carry()
    keeper.keep(site.made[3:], (1, 3))
    keeper.carry(dead=[site.origin])
    state = site.open().state()
    assert state.lost_ends == {}
    assert state.covered[site.origin] == (((0, 0), (1, 6)),)
