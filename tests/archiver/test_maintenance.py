"""Nodes that share an archive maintain it one at a time; another continues when one dies."""

from __future__ import annotations

import functools
import json
from random import Random

import pytest

from broker.archive.archive import Archive
from broker.archive.compaction import CompactionRules
from broker.archive.maintenance_lease import MAINTENANCE_LEASE_MS, PATH, MaintenanceLease
from broker.archive.verification import Verification
from broker.archive.writer import ArchiveWriter
from broker.archiver.__main__ import main
from broker.archiver.maintenance import EXPIRY_INTERVAL, Maintenance, MaintenanceResult
from broker.archiver.maintenance_rules import NO_MAINTENANCE, MaintenanceRules
from broker.errors import ArchiveObjectMissing, ArchiveUnavailable
from broker.event.place import Position
from broker.subscriptions.durable_subscriptions import DurableSubscription
from broker.testing.fragile_disk import FragileDisk, SimulatedCrash
from tests.archive.events import HOUR, Wall, covering, event, everything_in, once, same
from tests.seeds import seeds

ARRIVED = event(1).arrival
MADE = [event(n, arrival=ARRIVED + (n - 1) // 20 * HOUR) for n in range(1, 61)]


@functools.cache
def _filled() -> FragileDisk:
    wall = Wall()
    disk = FragileDisk(wall)
    writer = ArchiveWriter(Archive.open("/archive", wall_clock=wall, disk=disk), "aa", wall)
    for each in MADE:
        writer.write(covering([each]), [each], {})
    return disk


#: Each hour takes several merges, so a run can be interrupted.
SMALL = CompactionRules(target_rows=8)
LATER = 24 * HOUR


class Shared:
    """Three settled hours with one file per event."""

    def __init__(self) -> None:
        self.wall = Wall(MADE[-1].arrival + LATER)
        # Written once, since it takes most of the time.
        self.disk = FragileDisk(self.wall).with_files_of(_filled())

    def open(self) -> Archive:
        return Archive.open("/archive", wall_clock=self.wall, disk=self.disk)

    def maintenance(self, name: str, **rules: int) -> Maintenance:
        return Maintenance(self.open(), MaintenanceRules(**rules), f"carer-{name}", SMALL)  # type: ignore[arg-type]

    def holder(self) -> str:
        try:
            said = json.loads(self.open().objects.get(PATH))
        except (ArchiveObjectMissing, ValueError):
            return ""
        return str(said["carer"]) if said["until"] > self.wall.now else ""

    def files(self) -> int:
        return len(self.open().state().files)

    def check(self) -> None:
        assert same(once(everything_in(self.open())), MADE)
        assert self.open().state().covers("aa", (1, 0), (1, 60))
        assert Verification(self.open()).run().faults == []


def test_small_files_are_merged_and_deleted_once_unread() -> None:
    shared = Shared()
    maintenance = shared.maintenance("a")
    assert maintenance.is_due()
    done = maintenance.run()
    assert done.merged == 60
    assert done.made == shared.files() < 12
    assert done.deleted == 0
    assert not maintenance.is_due()
    shared.wall.now += 2 * HOUR
    assert maintenance.is_due()
    assert maintenance.run().deleted == 60
    assert not maintenance.is_due()
    assert len(shared.open().objects.list_objects("events")) == shared.files()
    shared.check()


def test_expiry_runs_at_intervals_at_any_node() -> None:
    shared = Shared()
    a, b = shared.maintenance("a"), shared.maintenance("b")
    a.run()
    assert not b.is_due()
    shared.wall.now += EXPIRY_INTERVAL
    assert b.is_due()
    b.run()
    assert not a.is_due()


def test_empty_rules_do_nothing() -> None:
    shared = Shared()
    maintenance = Maintenance(shared.open(), NO_MAINTENANCE, "carer-a")
    before = shared.disk.step_count
    assert not maintenance.is_due()
    assert maintenance.run() == MaintenanceResult()
    assert shared.disk.step_count == before


def test_old_files_expire_without_compaction() -> None:
    shared = Shared()
    done = shared.maintenance("a", compact=False, age_ms=LATER + HOUR // 2).run()
    assert (done.removed, done.merged, done.held) == (40, 0, "")
    assert [each.offset for each in everything_in(shared.open())] == list(range(41, 61))


def test_the_oldest_files_expire_beyond_the_byte_limit() -> None:
    shared = Shared()
    files = shared.open().state().files.values()
    of_newest = sum(file.bytes for file in files if file.arrivals[0] == MADE[-1].arrival)
    assert shared.maintenance("a", compact=False, max_bytes=of_newest + 10).run().removed > 0
    assert everything_in(shared.open())[-1].offset == 60


def test_the_oldest_files_expire_beyond_the_event_limit() -> None:
    shared = Shared()
    done = shared.maintenance("a", compact=False, max_events=25).run()
    assert (done.removed, done.held) == (40, "")
    assert [each.offset for each in everything_in(shared.open())] == list(range(41, 61))


def durable(pattern: str, position: Position) -> bytes:
    return DurableSubscription(pattern, "true()", {}, position, 1).encode()


def test_events_needed_by_a_durable_subscription_stay() -> None:
    shared = Shared()
    writer = ArchiveWriter(shared.open(), "aa", shared.wall)
    writer.put_durables([("c", "d", durable("s", Position({"aa": (1, 25)})))])
    done = shared.maintenance("a", compact=False, age_ms=HOUR).run()
    assert done.removed == 20
    assert done.held == "2026-11-20T08"
    assert everything_in(shared.open())[0].offset == 21


@pytest.mark.parametrize("damage", ["entry", "page"])
def test_an_unreadable_durable_subscription_needs_all_events(damage: str) -> None:
    shared = Shared()
    writer = ArchiveWriter(shared.open(), "aa", shared.wall)
    writer.put_durables([("c", "d", b"rubbish")])
    if damage == "page":
        (page,) = shared.open().objects.list_objects("durables")
        shared.open().objects.put([(page.path, b"{}")])
    done = shared.maintenance("a", age_ms=HOUR).run()
    assert done.removed == 0
    assert done.held == "2026-11-20T07"
    assert len(done.problems) == 1
    assert "all events stay for it" in done.problems[0]
    assert same(once(everything_in(shared.open())), MADE)


# ---------------------------------------------------------------- several nodes


def test_only_one_node_does_maintenance_at_a_time() -> None:
    shared = Shared()
    others: list[MaintenanceResult] = []

    def meanwhile() -> bool:
        other = shared.maintenance("b")
        assert not other.is_due()
        others.append(other.run())
        return False

    assert shared.maintenance("a").run(meanwhile).merged == 60
    assert len(others) > 5
    assert set(map(str, others)) == {str(MaintenanceResult())}
    shared.check()


def test_the_next_run_continues_a_cancelled_one() -> None:
    shared = Shared()
    looks = iter([False, False, True])
    done = shared.maintenance("a").run(lambda: next(looks, True))
    assert 0 < done.merged < 60
    assert shared.maintenance("b").run().merged == 60 - done.merged
    shared.check()


def test_a_run_ends_when_it_loses_the_lease() -> None:
    shared = Shared()
    taken: list[MaintenanceResult] = []

    def long_pause() -> bool:
        if not taken:
            # The process was suspended for longer than its lease.
            shared.wall.now += MAINTENANCE_LEASE_MS + 1
            taken.append(shared.maintenance("b").run())
            MaintenanceLease(shared.open().objects, "carer-c", shared.wall).acquire()
        return False

    done = shared.maintenance("a").run(long_pause)
    assert taken[0].merged > 0
    assert done.merged < 60
    assert shared.open().objects.get(PATH).startswith(b'{"carer": "carer-c"')
    shared.check()


def test_a_run_may_die_at_each_step_and_another_continues() -> None:
    whole = Shared()
    before = whole.disk.step_count
    whole.maintenance("a").run()
    steps = whole.disk.step_count - before
    assert steps > 60
    for last in range(0, steps, 7):
        shared = Shared()
        shared.disk.crash_step = shared.disk.step_count + last
        with pytest.raises(SimulatedCrash):
            shared.maintenance("a").run()
        dead = shared.disk
        shared.disk = (
            dead.disk_after_kill() if last % 2 else dead.disk_after_power_loss(Random(last))
        )
        shared.check()
        other = shared.maintenance("b")
        # Its lease has not ended, or it had not started.
        assert other.is_due() != (shared.holder() == "carer-a")
        shared.wall.now += MAINTENANCE_LEASE_MS + 1
        other.run()
        assert shared.files() <= 9
        shared.check()
        for _ in range(3):
            shared.wall.now += 2 * HOUR
            other.run()
        assert len(shared.open().objects.list_objects("events")) == shared.files()
        assert shared.open().objects.list_objects("incoming") == []
        shared.check()


@pytest.mark.parametrize("seed", seeds(7, 20))
def test_many_dying_runs_keep_the_archive_intact(seed: int) -> None:
    random, shared = Random(seed), Shared()
    left = 12
    while left:
        shared.wall.now += random.randrange(MAINTENANCE_LEASE_MS)
        shared.disk.crash_step = shared.disk.step_count + random.randrange(1, 120)
        try:
            shared.maintenance(random.choice("abc")).run(lambda: random.random() < 0.1)
        except SimulatedCrash:
            left -= 1
            dead = shared.disk
            shared.disk = (
                dead.disk_after_kill()
                if random.random() < 0.5
                else dead.disk_after_power_loss(random)
            )
        else:
            left -= 1
    shared.disk.crash_step = None
    for _ in range(4):
        shared.wall.now += 2 * HOUR
        shared.maintenance("a").run()
    assert shared.files() <= 9
    assert len(shared.open().objects.list_objects("events")) == shared.files()
    shared.check()


def test_a_failed_run_delays_the_others() -> None:
    shared = Shared()
    shared.disk.free_bytes = 200
    with pytest.raises(ArchiveUnavailable):
        shared.maintenance("a").run()
    shared.disk.free_bytes = None
    assert not shared.maintenance("b").is_due()
    assert shared.maintenance("a").is_due()
    shared.wall.now += MAINTENANCE_LEASE_MS
    assert shared.maintenance("b").run().merged == 60


# ---------------------------------------------------------------- the lease


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def disk(wall: Wall) -> FragileDisk:
    return FragileDisk(wall)


def lease(disk: FragileDisk, name: str, wall: Wall) -> MaintenanceLease:
    return MaintenanceLease(
        Archive.open("/archive", wall_clock=wall, disk=disk).objects, name, wall
    )


def test_a_lease_is_exclusive_until_it_ends(disk: FragileDisk, wall: Wall) -> None:
    a, b = lease(disk, "a", wall), lease(disk, "b", wall)
    assert (a.acquire(), b.is_free(), b.acquire(), a.acquire()) == (True, False, False, True)
    for _ in range(5):
        wall.now += MAINTENANCE_LEASE_MS - 1
        assert (a.renew(), b.acquire()) == (True, False)
    wall.now += MAINTENANCE_LEASE_MS
    assert (b.acquire(), a.renew(), a.acquire()) == (True, False, False)
    a.release(expired=True)
    assert not a.is_free(), "somebody else's was given away"
    b.release(expired=True)
    assert (a.last_expiry(), a.acquire()) == (wall.now, True)
    wall.now += 5
    a.release(expired=False)
    assert b.last_expiry() == wall.now - 5


@pytest.mark.parametrize(
    "rubbish", [b"", b"[]", b"{}", b'{"carer": "x", "until": "z"}', b"\xff", b"null"]
)
def test_an_unreadable_lease_is_free(disk: FragileDisk, wall: Wall, rubbish: bytes) -> None:
    lease(disk, "a", wall)
    Archive.open("/archive", wall_clock=wall, disk=disk).objects.put([(PATH, rubbish)])
    assert lease(disk, "a", wall).acquire()


def test_a_lease_of_a_wrong_clock_does_not_last(disk: FragileDisk, wall: Wall) -> None:
    ahead = Wall(wall.now + 1000 * HOUR)
    assert lease(disk, "a", ahead).acquire()
    assert lease(disk, "b", wall).acquire()


def test_a_process_without_rules_does_no_maintenance() -> None:
    context = main.make_context("archiver", ["--log", "l", "--archive", "a", "--every", "1"])
    assert context.params["rules"] == NO_MAINTENANCE
