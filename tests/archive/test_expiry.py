"""Expiry never deletes files that a reader may use, or whose manifest is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.archive import journal_writer
from broker.archive.archive import Archive, new_temporary_writer_name
from broker.archive.compaction import Compaction, CompactionRules
from broker.archive.expiry import Expiry, ExpiryResult, ExpiryRules
from broker.archive.manifest_journal import ManifestWriter
from broker.archive.reader_lease import LEASE_MS
from broker.archive.retention import DurableNeed, Retention
from broker.archive.writer import ArchiveWriter
from broker.event.place import Position
from broker.event.stream import StreamPattern
from broker.testing.fragile_disk import FragileDisk
from tests.archive.events import HOUR, Wall, covering, event, everything_in, same

DAY = 24 * HOUR
ROOT = Path("/archive")
DEFAULT = ExpiryRules()


class Place:
    """Two files of one hour."""

    def __init__(self) -> None:
        self.wall = Wall()
        self.disk = FragileDisk(self.wall)
        self.archive = self.opened()
        self.writer = ArchiveWriter(self.archive, "aa", self.wall)
        self.made = [event(n) for n in range(1, 11)]
        for some in (self.made[:5], self.made[5:]):
            self.writer.write(covering(some), some, {})
        self.small = set(self.archive.state().files)
        self.wall.now += 2 * HOUR

    def opened(self) -> Archive:
        return Archive.open(str(ROOT), wall_clock=self.wall, disk=self.disk)

    def compact(self, name: str = "compactor") -> None:
        archive = self.opened()
        Compaction(
            archive, ManifestWriter(archive.manifests, name, self.wall), CompactionRules()
        ).run()

    def expiry(
        self, rules: ExpiryRules = DEFAULT, *needs: DurableNeed, name: str = "expirer"
    ) -> Expiry:
        archive = self.opened()
        return Expiry(archive, ManifestWriter(archive.manifests, name, self.wall), rules, needs)

    def expire(self, rules: ExpiryRules = DEFAULT, *needs: DurableNeed) -> ExpiryResult:
        return self.expiry(rules, *needs).run()

    def stored(self, folder: str = "events") -> set[str]:
        return {each.path for each in self.archive.objects.list_objects(folder)}


@pytest.fixture
def place() -> Place:
    return Place()


def test_removed_files_are_deleted_after_the_grace_period(place: Place) -> None:
    place.compact()
    place.wall.now += HOUR - 1
    assert place.expire().deleted == []
    place.wall.now += 2 + 60_000
    expired = place.expire()
    assert set(expired.deleted) == place.small
    assert expired.orphans == 0
    assert place.stored() == set(place.archive.state().files)
    assert same(everything_in(place.archive), place.made)


def test_files_visible_to_a_reader_are_not_deleted(place: Place) -> None:
    with place.opened().open_reader_lease() as lease:
        place.compact()
        for _ in range(20):
            place.wall.now += LEASE_MS // 2
            lease.renew()
            assert place.expire().deleted == []
        assert place.small < place.stored()
    with place.opened().open_reader_lease():
        # A later lease does not protect it.
        assert set(place.expire().deleted) >= place.small


def test_a_reader_that_does_not_renew_its_lease_protects_nothing(place: Place) -> None:
    lease = place.opened().open_reader_lease()
    lease.__enter__()
    place.compact()
    place.wall.now += DAY
    assert set(place.expire().deleted) > place.small
    assert place.stored("readers") == set()


def test_a_dry_run_changes_nothing(place: Place) -> None:
    place.compact()
    place.wall.now += DAY
    before = place.stored("")
    planned = place.expiry().plan()
    assert set(planned.deleted) == place.small
    assert place.stored("") == before
    assert place.expire() == planned


def test_old_unlisted_files_are_deleted(place: Place) -> None:
    place.archive.objects.put([("events/s/2026-11-20T07/aa-1-1-1-ff.parquet", b"half a flush")])
    assert place.expire().deleted == []
    place.wall.now += HOUR + 1
    expired = place.expire()
    assert (expired.orphans, len(expired.deleted)) == (1, 1)
    assert same(everything_in(place.archive), place.made)


def test_unlisted_files_stay_while_a_manifest_is_damaged(place: Place) -> None:
    manifest = ROOT / "manifests/aa/000000000001.json"
    place.disk.damage_file(manifest, lambda data: data.replace(b'"rows":5', b'"rows":6'))
    place.wall.now += 30 * DAY
    expired = place.expire()
    assert (expired.kept_orphans, expired.deleted) == (0, [])
    assert place.small == place.stored()
    assert str(manifest)[len(str(ROOT)) + 1 :] in place.opened().state().unreadable
    # Its files are listed again.
    assert same(everything_in(place.opened()), place.made)


def test_a_writer_makes_no_snapshot_while_a_page_is_damaged(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files that only the hidden page lists would be deleted."""
    monkeypatch.setattr(journal_writer, "SNAPSHOT_EVERY", 2)
    place.disk.damage_file(ROOT / "manifests/aa/000000000001.json", lambda data: data[:50])
    writer = ArchiveWriter(place.opened(), "aa", place.wall)
    for number in range(11, 20):
        some = [event(number, arrival=place.wall.now)]
        writer.write(covering(some), some, {})
    assert len(place.opened().state().problems) == 1
    place.wall.now += 30 * DAY
    assert place.expire().deleted == []
    assert place.small < place.stored()


def test_retention_removes_coverage(place: Place) -> None:
    later = [event(n, arrival=place.wall.now + n) for n in range(11, 13)]
    place.writer.write(covering(later), later, {})
    place.wall.now += 3 * HOUR
    rules = ExpiryRules(Retention(age_ms=4 * HOUR))
    assert set(place.expire(rules).removed) == place.small
    state = place.archive.state()
    assert state.covered == {"aa": (((1, 10), (1, 12)),)}
    assert same(everything_in(place.archive), later)
    assert place.small < place.stored()
    place.wall.now += HOUR + 60_001
    assert set(place.expire(rules).deleted) == place.small


def test_files_needed_by_a_durable_subscription_are_kept(place: Place) -> None:
    rules = ExpiryRules(Retention(age_ms=1))
    needed = DurableNeed(StreamPattern.parse("s"), Position({"aa": (1, 9)}))
    expired = place.expire(rules, needed)
    assert (expired.removed, expired.held) == ([], "2026-11-20T07")
    passed = DurableNeed(StreamPattern.parse("s"), Position({"aa": (1, 10)}))
    assert set(place.expire(rules, passed).removed) == place.small


def test_damaged_files_stay_for_a_week(place: Place) -> None:
    path = next(iter(place.small))
    place.archive.set_aside(place.archive.state().files[path], "for the test")
    place.wall.now += 6 * DAY
    place.expire()
    assert path in place.stored()
    place.wall.now += 2 * DAY
    place.expire()
    assert path not in place.stored()
    # Until they are written again.
    assert len(place.archive.state().lost_ranges["aa"]) == 1


def test_lost_events_can_be_written_again(place: Place) -> None:
    place.archive.set_aside(next(iter(place.archive.state().files.values())), "for the test")
    assert not place.archive.state().covers("aa", (1, 0), (1, 10))
    place.writer.write(covering(place.made), place.made, {})
    state = place.archive.state()
    assert state.covers("aa", (1, 0), (1, 10))
    assert state.lost_ranges == {}
    place.expire()
    assert place.archive.state().aside == {}
    assert place.archive.state().covers("aa", (1, 0), (1, 10))


def test_a_long_idle_reader_uses_a_new_temporary_name(place: Place) -> None:
    reader = place.opened()
    first, second = reader.state().files.values()
    reader.set_aside(first, "for the test")
    for _ in range(4):
        place.wall.now += DAY
        place.expire()
    reader.set_aside(second, "for the test")
    state = place.opened().state()
    assert state.problems == {}
    assert set(state.aside) == {first.path, second.path}


def test_journals_do_not_grow_without_bound(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_writer, "SNAPSHOT_EVERY", 4)
    for number in range(11, 61):
        some = [event(number, arrival=place.wall.now)]
        place.writer.write(covering(some), some, {})
        place.writer.put_durables([("desk", "alarms", b"%d" % number)])
        place.wall.now += 30 * 60_000
        place.compact("bb")
        place.expire()
    for folder in ("manifests/aa", "manifests/bb", "manifests/expirer", "durables/aa"):
        assert 0 < len(place.stored(folder)) < 16, folder
    largest = max(len(place.archive.objects.get(path)) for path in place.stored("manifests"))
    assert largest < 30_000
    assert len(place.archive.state().manifest.adds) < 50
    assert len(everything_in(place.archive)) == 60
    assert place.archive.read_durables()[("desk", "alarms")][1] == b"60"
    assert place.archive.state().problems == {}
    assert place.archive.state().covers("aa", (1, 0), (1, 60))


def test_temporary_writers_are_absorbed(place: Place) -> None:
    for number in range(11, 31, 2):
        some = [event(n, arrival=place.wall.now) for n in (number, number + 1)]
        place.writer.write(covering(some), some, {})
        place.compact(new_temporary_writer_name())
        place.wall.now += 8 * HOUR
        place.expiry(name=new_temporary_writer_name()).run()
    assert len({path.split("/")[1] for path in place.stored("manifests")}) < 12
    assert any(place.archive.state().manifest.absorbed)
    found = everything_in(place.archive)
    assert [each.offset for each in found] == list(range(1, 31))
    place.wall.now += 3 * DAY
    for _ in range(3):
        place.expire()
        place.wall.now += 2 * HOUR
    assert {path.split("/")[1] for path in place.stored("manifests")} <= {"aa", "expirer"}
    assert same(everything_in(place.archive), found)
    assert place.archive.state().problems == {}
