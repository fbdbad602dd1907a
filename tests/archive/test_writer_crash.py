"""A writer can be killed or lose power at any step without losing or repeating events.

The next process continues after the covered places.
"""

from __future__ import annotations

from random import Random

import pytest

from broker.archive import journal_writer
from broker.archive.archive import Archive
from broker.archive.writer import ArchiveWriter
from broker.dtd.reference import DtdReference
from broker.testing.fragile_disk import FragileDisk, SimulatedCrash
from tests.archive.events import MORNING, covering, event, everything_in, once, same
from tests.seeds import further_cases, seeds

TEXT = DtdReference("event", "1.0")
MADE = [event(number, stream=f"s{number % 2}") for number in range(1, 9)]
FLUSH = 3


def clock() -> int:
    return MORNING


def opened(disk: FragileDisk) -> Archive:
    return Archive.open("/archive", wall_clock=clock, disk=disk)


def archive_all(disk: FragileDisk) -> None:
    """Write uncovered events, and a position with each flush."""
    archive = opened(disk)
    writer = ArchiveWriter(archive, "aa", clock)
    while True:
        _, done = archive.state().covered_upto("aa", (1, 0))
        if done == len(MADE):
            break
        flush = MADE[done : done + FLUSH]
        writer.write(covering(flush), flush, {TEXT: b"<!ELEMENT e ANY>"})
        writer.put_durables([("desk", "alarms", b"%d" % flush[-1].offset)])
    if archive.read_durables().get(("desk", "alarms")) != ("aa", b"%d" % len(MADE), MORNING):
        writer.put_durables([("desk", "alarms", b"%d" % len(MADE))])


def check(disk: FragileDisk) -> None:
    archive = opened(disk)
    state = archive.state()
    assert state.problems == {}
    assert state.covered == {"aa": (((1, 0), MADE[-1].mark),)}
    assert same(once(everything_in(archive)), MADE)
    assert archive.read_dtd(TEXT) == b"<!ELEMENT e ANY>"
    assert archive.read_durables() == {("desk", "alarms"): ("aa", b"%d" % len(MADE), MORNING)}


def steps_of_all() -> int:
    disk = FragileDisk(clock)
    archive_all(disk)
    check(disk)
    return disk.step_count


@pytest.fixture(autouse=True)
def snapshots_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_writer, "SNAPSHOT_EVERY", 2)


def survivors(dead: FragileDisk) -> list[FragileDisk]:
    """All writes are done, or any part of those not synced."""
    return [
        dead.disk_after_kill(),
        *(dead.disk_after_power_loss(Random(seed)) for seed in range(2)),
    ]


@pytest.mark.parametrize("stride", [3, *further_cases(1)])
def test_a_writer_can_end_at_any_step(stride: int) -> None:
    steps = steps_of_all()
    assert steps > 80
    for last in range(0, steps, stride):
        dying = FragileDisk(clock)
        dying.crash_step = last
        with pytest.raises(SimulatedCrash):
            archive_all(dying)
        for disk in survivors(dying):
            _all_that_was_covered_is_there(disk)
            archive_all(disk)
            check(disk)


@pytest.mark.parametrize("seed", seeds(8, 20))
def test_a_writer_can_end_repeatedly(seed: int) -> None:
    random = Random(seed)
    disk = FragileDisk(clock)
    while True:
        disk.crash_step = random.randrange(1, 60)
        try:
            archive_all(disk)
        except SimulatedCrash:
            disk = random.choice(survivors(disk))
        else:
            check(disk)
            return


def test_archived_events_survive_a_loss_of_power() -> None:
    disk = FragileDisk(clock)
    archive_all(disk)
    for seed in range(10):
        check(disk.disk_after_power_loss(Random(seed)))


def _all_that_was_covered_is_there(disk: FragileDisk) -> None:
    archive = opened(disk)
    _, done = archive.state().covered_upto("aa", (1, 0))
    assert same(once(everything_in(archive))[:done], MADE[:done])
    assert archive.state().problems == {}
