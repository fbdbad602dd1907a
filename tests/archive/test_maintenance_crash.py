"""Compaction and expiry can end at any step; the next run completes their work."""

from __future__ import annotations

from random import Random

import pytest

from broker.archive import journal_writer
from broker.archive.archive import Archive, new_temporary_writer_name
from broker.archive.compaction import Compaction, CompactionRules
from broker.archive.expiry import Expiry, ExpiryRules
from broker.archive.manifest_journal import ManifestWriter
from broker.archive.retention import Retention
from broker.archive.verification import Verification
from broker.archive.writer import ArchiveWriter
from broker.testing.fragile_disk import FragileDisk, SimulatedCrash
from tests.archive.events import HOUR, Wall, covering, event, everything_in, once, same
from tests.seeds import further_cases, seeds

DAY = 24 * HOUR
OLD = [event(n) for n in range(1, 7)]
NEW = [event(n, arrival=OLD[0].arrival + 300 * DAY) for n in range(7, 13)]
RULES = ExpiryRules(Retention(age_ms=100 * DAY))


class Site:
    """Small files of two hours, the older of which has expired."""

    def __init__(self) -> None:
        self.wall = Wall()
        self.disk = FragileDisk(self.wall)
        writer = ArchiveWriter(self.opened(), "aa", self.wall)
        for some in (OLD[:2], OLD[2:4], OLD[1:6], NEW[:3], NEW[3:]):
            writer.write(covering(some), some, {})
        self.wall.now = NEW[-1].arrival + 1
        self.opened().objects.put([("events/s/2026-11-20T07/aa-9-9-9-ff.parquet", b"orphan")])

    def opened(self) -> Archive:
        return Archive.open("/archive", wall_clock=self.wall, disk=self.disk)

    def care(self) -> None:
        """Merge and expire four times, each time in a new process."""
        for wait in (8 * HOUR, DAY, DAY, 3 * HOUR):
            self.wall.now += wait
            archive = self.opened()
            ledger = ManifestWriter(archive.manifests, new_temporary_writer_name(), self.wall)
            Compaction(archive, ledger, CompactionRules()).run()
            Expiry(archive, ledger, RULES).run()

    def check(self) -> None:
        """Only expired events are gone, and only listed files exist."""
        archive = self.opened()
        assert Verification(archive).run().faults == []
        found = once(everything_in(archive))
        assert same(found, NEW)
        assert archive.state().covered == {"aa": (((1, 6), (1, 12)),)}
        stored = {each.path for each in archive.objects.list_objects("events")}
        assert stored == set(archive.state().files)
        assert archive.objects.list_objects("incoming") == []
        assert archive.objects.list_objects("readers") == []

    def check_meanwhile(self) -> None:
        """After a crash, all unexpired events are readable."""
        archive = self.opened()
        found = once(everything_in(archive))
        assert same(found, [*OLD, *NEW]) or same(found, NEW)
        assert archive.state().covers("aa", (1, 6), (1, 12))
        assert archive.state().problems == {}


def test_maintenance_removes_old_and_merges_new_files() -> None:
    site = Site()
    site.care()
    site.check()


def _steps() -> int:
    site = Site()
    before = site.disk.step_count
    site.care()
    return site.disk.step_count - before


@pytest.mark.parametrize("stride", [3, *further_cases(1)])
def test_maintenance_can_end_at_any_step(monkeypatch: pytest.MonkeyPatch, stride: int) -> None:
    monkeypatch.setattr(journal_writer, "SNAPSHOT_EVERY", 2)
    steps = _steps()
    assert steps > 60
    for last in range(0, steps, stride):
        for seed in (None, 1):
            site = Site()
            site.disk.crash_step = site.disk.step_count + last
            with pytest.raises(SimulatedCrash):
                site.care()
            dead = site.disk
            site.disk = (
                dead.disk_after_kill() if seed is None else dead.disk_after_power_loss(Random(seed))
            )
            site.check_meanwhile()
            # A dead reader's lease must end first.
            site.care()
            site.care()
            site.check()


@pytest.mark.parametrize("seed", seeds(4, 10))
def test_maintenance_can_end_repeatedly(seed: int) -> None:
    random, site = Random(seed), Site()
    while True:
        site.disk.crash_step = site.disk.step_count + random.randrange(1, 70)
        try:
            site.care()
        except SimulatedCrash:
            dead = site.disk
            site.disk = random.choice(
                (dead.disk_after_kill, lambda dead=dead: dead.disk_after_power_loss(random))
            )()
            site.check_meanwhile()
        else:
            site.disk.crash_step = None
            site.care()
            site.check()
            return
