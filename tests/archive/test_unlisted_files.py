"""Files of lost manifests are listed again, and the lost end of an origin is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.archive import journal_writer
from broker.archive.archive import Archive
from broker.archive.archive_state import ArchiveState
from broker.archive.compaction import Compaction, CompactionRules
from broker.archive.expiry import Expiry, ExpiryRules
from broker.archive.interval import union
from broker.archive.manifest import Manifest
from broker.archive.manifest_journal import ManifestWriter
from broker.archive.table import batch_to_events
from broker.archive.writer import ArchiveWriter
from broker.log.logged_event import LoggedEvent
from broker.testing.fragile_disk import FragileDisk
from tests.archive.events import HOUR, Wall, covering, event, events, same

EVENTS = [event(n) for n in range(1, 13)]


class Site:
    """Its small files were merged and deleted."""

    def __init__(self) -> None:
        self.wall = Wall()
        self.disk = FragileDisk(self.wall)
        self.writer = ArchiveWriter(self.opened(), "aa", self.wall)

    def opened(self) -> Archive:
        return Archive.open("/archive", wall_clock=self.wall, disk=self.disk)

    def write(self, made: list[LoggedEvent]) -> None:
        self.writer.write(covering(made), made, {})

    def care(self) -> None:
        """One run in a new process."""
        archive = self.opened()
        ledger = ManifestWriter(archive.manifests, "carer-aa", self.wall)
        Compaction(archive, ledger, CompactionRules(min_files_in_open_hour=2)).run()
        Expiry(archive, ledger, ExpiryRules()).run()

    def merge_all(self) -> None:
        """Leave only the merged file and the manifests of maintenance."""
        for wait in (2, 2, 2):
            self.wall.now += wait * HOUR
            self.care()
        # A snapshot omits deleted files.
        later = [event(n, arrival=self.wall.now) for n in (13, 14)]
        for each in later:
            self.write([each])

    def manifests(self, writer: str) -> list[str]:
        return sorted(
            each.path for each in self.opened().objects.list_objects(f"manifests/{writer}")
        )

    def lose(self, path: str, keep: int | None = None) -> None:
        place = Path("/archive") / path
        if keep is None:
            self.disk.remove(place)
        else:
            self.disk.damage_file(place, lambda data: data[:keep])


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(journal_writer, "SNAPSHOT_EVERY", 2)
    return Site()


def read(archive: Archive, state: ArchiveState) -> list[LoggedEvent]:
    found = [
        each
        for file in state.files.values()
        for batch in archive.read(file, checked=True)
        for each in batch_to_events(batch)
    ]
    return sorted({each.mark: each for each in found}.values(), key=lambda each: each.mark)


@pytest.mark.parametrize("keep", [None, 0, 40])
def test_a_merged_file_whose_manifest_is_lost_is_listed_again(site: Site, keep: int | None) -> None:
    for start in range(0, 12, 4):
        site.write(EVENTS[start : start + 4])
    site.merge_all()
    assert same(read(site.opened(), site.opened().state())[:12], EVENTS)
    for path in site.manifests("carer-aa"):
        site.lose(path, keep)
    archive = site.opened()
    assert archive.state().covers("aa", (1, 0), (1, 12))
    assert len(read(archive, archive.state())) == 2
    assert same(read(archive, archive.state_with_unlisted())[:12], EVENTS)
    # Other readers need not read them: the files are listed now.
    assert same(read(site.opened(), site.opened().state())[:12], EVENTS)


def test_a_reader_without_write_access_reads_unlisted_files(site: Site) -> None:
    site.write(EVENTS[:6])
    site.write(EVENTS[6:])
    site.merge_all()
    site.lose(site.manifests("carer-aa")[0])
    site.disk.free_bytes = 0
    archive = site.opened()
    for _ in range(2):
        assert same(read(archive, archive.state_with_unlisted())[:12], EVENTS)


def test_maintenance_lists_unlisted_files_and_gives_their_manifests_up(site: Site) -> None:
    site.write(EVENTS[:6])
    site.write(EVENTS[6:])
    site.merge_all()
    for path in site.manifests("carer-aa"):
        site.lose(path)
    site.wall.now += HOUR // 2
    site.care()
    state = site.opened().state()
    assert same(read(site.opened(), state)[:12], EVENTS)
    assert not state.problems
    # Snapshots, made again, do not count given-up manifests.
    for _ in range(3):
        site.wall.now += 2 * HOUR
        site.write([event(15 + site.wall.now % 1000, arrival=site.wall.now)])
        site.care()
    assert same(read(site.opened(), site.opened().state())[:12], EVENTS)


def test_a_damaged_unlisted_file_is_kept(site: Site) -> None:
    site.write(EVENTS[:6])
    site.write(EVENTS[6:])
    site.merge_all()
    (merged_file,) = (p for p, f in site.opened().state().files.items() if f.rows == 12)
    for path in site.manifests("carer-aa"):
        site.lose(path)
    site.lose(merged_file, 100)
    site.wall.now += 2 * HOUR
    archive = site.opened()
    done = Expiry(
        archive, ManifestWriter(archive.manifests, "carer-aa", site.wall), ExpiryRules()
    ).run()
    assert done.kept_orphans == 1
    assert site.opened().state().problems


def test_the_end_of_an_origin_is_known_from_other_writers(site: Site) -> None:
    for start in range(0, 12, 3):
        site.write(EVENTS[start : start + 3])
    other = ArchiveWriter(site.opened(), "bb", site.wall)
    other.report_observed_coverage()
    files = {p for p, f in site.opened().state().files.items() if f.spans["aa"][0] >= (1, 10)}
    (file,) = files
    for path in site.manifests("aa")[-2:]:
        site.lose(path)
    archive = site.opened()
    state = archive.state()
    assert state.lost_ends == {"aa": (1, 12)}
    ((after, upto),) = state.missing_ranges["aa"]
    assert upto == (1, 12) and after < (1, 12)
    # The files still exist.
    state = archive.state_with_unlisted()
    assert state.lost_ends == {}
    assert state.covers("aa", (1, 0), (1, 12))
    assert file in state.files


def test_coverage_seen_by_one_writer_only_is_reported_at_once(site: Site) -> None:
    other = ArchiveWriter(site.opened(), "bb", site.wall)
    site.write(EVENTS[:3])
    other.report_observed_coverage()
    pages = len(site.manifests("bb"))
    for number in range(3, 6):
        # A busy origin does not cause a manifest at each check.
        site.write(EVENTS[number : number + 1])
        other.report_observed_coverage()
    assert len(site.manifests("bb")) == pages
    for path in site.manifests("aa")[-2:]:
        # A manifest and a snapshot.
        site.lose(path)
    other.report_observed_coverage()
    assert len(site.manifests("bb")) > pages
    assert site.opened().state().lost_ends == {"aa": (1, 6)}


def test_observed_coverage_is_reported_in_portions(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.archive.observed_coverage.MAX_ENTRIES", 2)
    for origin in ("aa", "cc", "dd", "ee", "ff"):
        made = [event(1, origin=origin)]
        ArchiveWriter(site.opened(), origin, site.wall).write(covering(made), made, {})
    other = ArchiveWriter(site.opened(), "bb", site.wall)
    for _ in range(3):
        site.wall.now += HOUR
        other.report_observed_coverage()
    seen = site.opened().state().manifest.ends
    assert set(seen) >= {"aa", "cc", "dd", "ee", "ff"}


def test_a_page_number_seen_by_another_writer_is_not_used_again(site: Site) -> None:
    site.write(EVENTS[:6])
    site.write(EVENTS[6:])
    site.merge_all()
    ArchiveWriter(site.opened(), "bb", site.wall).report_observed_coverage()
    newest = site.manifests("carer-aa")[-1]
    site.lose(newest)
    assert newest in site.opened().state().problems
    archive = site.opened()
    ledger = ManifestWriter(archive.manifests, "carer-aa", site.wall)
    ledger.write(Manifest(removes={"x": 1}))
    assert site.manifests("carer-aa")[-1] > newest


def test_consecutive_places_of_unlisted_files_are_covered(site: Site) -> None:
    made = [*events(range(1, 10)), *events(range(20, 26))]
    site.writer.write([("aa", (0, 0), (1, 25))], made, {})
    site.write([event(n) for n in range(26, 28)])
    ArchiveWriter(site.opened(), "bb", site.wall).report_observed_coverage()
    for path in site.manifests("aa"):
        site.lose(path)
    state = site.opened().state_with_unlisted()
    assert union(state.covered["aa"]) == (((1, 0), (1, 9)), ((1, 19), (1, 27)))
