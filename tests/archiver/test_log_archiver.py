from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from broker.archive.archive import Archive
from broker.archive.chunk_columns import ChunkColumns
from broker.archive.expiry import Expiry, ExpiryRules
from broker.archive.manifest_journal import ManifestWriter
from broker.archive.retention import Retention
from broker.archive.verification import Verification
from broker.archiver import log_archiver
from broker.errors import ArchiveUnavailable
from broker.event.place import Mark
from broker.log.log_file import LogFile
from broker.testing.fragile_disk import SimulatedCrash
from broker.testing.simulated_archive import LogView
from tests.archive.events import HOUR, MORNING, same
from tests.archiver.archived_node import REFERENCE, TEXT, Site
from tests.log.bit_damage import damage_log, flipped, read_past_damage

# ---------------------------------------------------------------- new events


def test_new_events_are_archived_once(site: Site) -> None:
    site.log_more(5)
    archiver = site.carry()
    before = site.disk.step_count
    site.carry(archiver)
    assert site.disk.step_count == before, "nothing is new, and something was written"
    site.log_more(3)
    site.carry(archiver)
    assert site.offsets() == list(range(1, 9))
    assert same(site.archived(), site.made)
    assert site.covered() == (((0, 0), (1, 8)),)
    assert archiver.reached == {site.origin: (1, 8)}
    assert (archiver.counters.events, archiver.counters.flushes, archiver.counters.lost) == (
        8,
        2,
        0,
    )
    assert Verification(site.open()).run().faults == []


def test_a_new_process_continues_at_the_end_of_the_archive(site: Site) -> None:
    for count in (4, 1, 7):
        site.log_more(count)
        site.carry()
    assert site.offsets() == list(range(1, 13))


def test_many_events_take_several_flushes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_archiver, "FLUSH_EVENTS", 4)
    site.log_more(10)
    archiver = site.archiver()
    assert [archiver.flush() for _ in range(3)] == [True, True, False]
    assert site.offsets() == list(range(1, 11))
    assert archiver.counters.flushes == 3


def test_a_new_epoch_continues_behind_the_old_one(site: Site) -> None:
    site.log_more(3)
    archiver = site.carry()
    site.log_more(3, epoch=2)
    site.carry(archiver)
    assert site.covered() == (((0, 0), (2, 6)),)
    assert same(site.archived(), site.made)


def test_damage_in_the_log_is_a_missing_range_until_it_is_repaired(site: Site) -> None:
    for _ in range(3):
        site.log_more(4)
    damage_log(site.log, "events", lambda value: flipped(value, 45), 1)
    archiver = site.carry()
    assert site.offsets() == [1, 2, 3, 4, 9, 10, 11, 12]
    assert [mark[1] for each in site.covered() for mark in each] == [0, 4, 8, 12]
    assert archiver.counters.damaged and not archiver.counters.lost
    site.log_more(2)
    site.carry(archiver)
    assert site.offsets()[-2:] == [13, 14]
    _, (damage,) = read_past_damage(site.log)
    assert site.log.repair(damage, site.made) is None
    site.carry(archiver)
    assert sorted(site.offsets()) == list(range(1, 15))
    assert same(site.archived(), site.made)


# ---------------------------------------------------------------- death at any moment


def _whole(site: Site) -> None:
    site.log_more(5)
    site.store({"a": b"1", "b": b"2"})
    site.carry()


def _check(site: Site) -> None:
    archive = site.open()
    assert same(site.archived(), site.made)
    assert site.covered() == (((0, 0), (1, len(site.made))),)
    assert {key: stored for key, (_, stored, _) in archive.read_durables().items()} == {
        ("c", "a"): b"1",
        ("c", "b"): b"2",
    }
    assert archive.read_dtd(REFERENCE) == TEXT
    assert Verification(archive).run().faults == []


def test_the_archiver_may_die_at_each_step(tmp_path: Path) -> None:
    whole = Site(tmp_path / "whole")
    _whole(whole)
    steps = whole.disk.step_count
    whole.close()
    assert steps > 30
    for last in range(steps):
        for seed in (None, 1):
            site = Site(tmp_path / f"{last}-{seed}")
            site.disk.crash_step = last
            with pytest.raises(SimulatedCrash):
                _whole(site)
            site.disk = (
                site.disk.disk_after_kill()
                if seed is None
                else site.disk.disk_after_power_loss(Random(seed))
            )
            site.carry()
            _check(site)
            assert site.offsets() == [1, 2, 3, 4, 5], "what was listed was written again"
            site.close()


@pytest.mark.parametrize("seed", range(10))
def test_the_archiver_may_die_many_times(tmp_path: Path, seed: int) -> None:
    random, site = Random(seed), Site(tmp_path)
    site.log_more(1)
    site.store({"a": b"1", "b": b"2"})
    ends = 0
    while ends < 12:
        site.disk.crash_step = site.disk.step_count + random.randrange(1, 40)
        try:
            archiver = site.archiver()
            while True:
                site.carry(archiver)
                site.log_more(random.randrange(1, 4))
        except SimulatedCrash:
            ends += 1
            dead = site.disk
            site.disk = (
                dead.disk_after_kill()
                if random.random() < 0.5
                else dead.disk_after_power_loss(random)
            )
    site.carry()
    _check(site)
    site.close()


def test_a_full_disk_is_reported_and_loses_nothing(site: Site) -> None:
    site.log_more(5)
    archiver = site.archiver()
    site.disk.free_bytes = 100
    with pytest.raises(ArchiveUnavailable):
        site.carry(archiver)
    assert site.archived() == []
    site.disk.free_bytes = None
    site.carry(archiver)
    assert site.offsets() == [1, 2, 3, 4, 5]


# ---------------------------------------------------------------- retention of the log


def test_events_removed_before_archiving_are_counted(tmp_path: Path) -> None:
    site = Site(tmp_path, max_bytes=100_000)
    site.log_more(5)
    archiver = site.carry()
    for _ in range(20):
        site.log_more(5, document=bytes(4_000))
    since = site.log.begins_after[site.origin]
    assert since[1] > 20
    site.carry(archiver)
    assert site.covered() == (((0, 0), (1, 5)), (since, (1, 105)))
    assert archiver.counters.lost == since[1] - 5
    assert site.offsets() == [*range(1, 6), *range(since[1] + 1, 106)]
    site.log_more(1)
    site.carry(archiver)
    assert archiver.counters.lost == since[1] - 5, "counted twice"
    site.close()


class Interrupted(LogView):
    """Runs a function once between two reads of the archiver."""

    def __init__(self, log: LogFile, meanwhile: Callable[[], object]) -> None:
        super().__init__(log)
        self._meanwhile = [meanwhile]

    def read(self, after: Mark, max_events: int, max_bytes: int) -> list[ChunkColumns]:
        while self._meanwhile:
            self._meanwhile.pop()()
        return super().read(after, max_events, max_bytes)


def test_events_removed_during_a_flush_are_not_covered(tmp_path: Path) -> None:
    site = Site(tmp_path, max_bytes=100_000)
    site.log_more(5)

    def hurry() -> None:
        for _ in range(20):
            site.log_more(5, document=bytes(4_000))

    site.shown = Interrupted(site.log, hurry)
    archiver = site.carry()
    first = site.offsets()[0]
    assert first > 5
    assert site.covered()[0][0] >= (1, first - 1)
    assert site.offsets() == list(range(first, 106))
    assert archiver.counters.lost == first - 1
    site.close()


def test_expired_events_do_not_return_from_the_log(site: Site) -> None:
    site.log_more(5)
    site.carry()
    site.wall.now = MORNING + 3 * HOUR
    archive = site.open()
    rules = ExpiryRules(Retention(age_ms=HOUR))
    Expiry(archive, ManifestWriter(archive.manifests, "guest-1", site.wall), rules).run()
    site.carry()
    assert site.offsets() == []
    site.log_more(1)
    site.carry()
    assert site.offsets() == [6]


# ---------------------------------------------------------------- dead origins


def test_a_replica_of_a_dead_origin_is_archived(site: Site, keeper: Site) -> None:
    site.log_more(6)
    keeper.keep(site.made, (0, 0))
    keeper.carry()
    assert keeper.archived() == []
    archiver = keeper.carry(dead=[site.origin, "nobody"])
    assert same(keeper.archived(), site.made)
    assert site.covered() == (((0, 0), (1, 6)),)
    assert archiver.reached[site.origin] == (1, 6)
    keeper.carry(dead=[site.origin])
    assert site.offsets() == [1, 2, 3, 4, 5, 6]


def test_progress_of_others_with_a_replica_is_reported(site: Site, keeper: Site) -> None:
    """Their node may be lost."""
    site.log_more(6)
    keeper.keep(site.made, (0, 0))
    archiver = keeper.carry()
    assert archiver.reached[site.origin] == (0, 0)
    site.carry()
    keeper.carry(archiver)
    assert archiver.reached[site.origin] == (1, 6)


def test_a_returned_origin_continues_behind_its_replica(site: Site, keeper: Site) -> None:
    site.log_more(4)
    site.carry()
    site.log_more(6)
    keeper.keep(site.made[2:8], (1, 2))
    keeper.carry(dead=[site.origin])
    assert site.offsets() == list(range(1, 9)), "the keeper wrote what was there"
    site.carry()
    assert site.offsets() == list(range(1, 11))
    assert site.covered() == (((0, 0), (1, 10)),)


def test_an_origin_and_its_replica_may_be_archived_at_once(site: Site, keeper: Site) -> None:
    site.log_more(4)
    site.carry()
    site.log_more(6)
    keeper.keep(site.made, (0, 0))
    # The other archiver writes after this one has read the log.
    site.shown = Interrupted(site.log, lambda: keeper.carry(dead=[site.origin]))
    of_its_own = site.carry()
    assert same(site.archived(), site.made)
    assert sorted(set(site.offsets())) == list(range(1, 11))
    assert len(site.offsets()) == 16
    assert site.covered() == (((0, 0), (1, 10)),)
    site.log_more(1)
    site.carry(of_its_own)
    assert same(site.archived(), site.made)


# ---------------------------------------------------------------- durables


def _durables(archive: Archive) -> dict[str, bytes]:
    return {name: stored for (_, name), (_, stored, _) in archive.read_durables().items()}


def test_durables_are_stored_changed_and_removed(site: Site) -> None:
    archiver = site.archiver()
    for step, durables in (
        ({"a": b"1", "b": b"1"}, {"a": b"1", "b": b"1"}),
        ({"a": b"2"}, {"a": b"2", "b": b"1"}),
        ({"b": None, "d": b"4"}, {"a": b"2", "d": b"4"}),
        ({"a": None, "d": None}, {}),
    ):
        site.store(step)
        archiver = site.carry(archiver)
        assert _durables(site.open()) == durables
    site.store({"e": b"5"})
    site.carry()
    site.store({"e": None})
    site.carry()
    assert _durables(site.open()) == {}


def test_unchanged_durables_are_not_stored_again(site: Site) -> None:
    site.store({"a": b"1"})
    site.carry()
    before = site.disk.step_count
    site.carry()
    assert site.disk.step_count == before


def test_a_returned_node_does_not_overwrite_newer_durables(site: Site, keeper: Site) -> None:
    site.store({"a": b"old"})
    site.carry()
    site.wall.now += 1_000
    keeper.store({"a": b"new"})
    keeper.carry()
    site.wall.now += 1_000
    site.carry()
    assert _durables(site.open()) == {"a": b"new"}


# ---------------------------------------------------------------- DTDs


def test_a_dtd_unknown_at_first_is_archived_later(site: Site) -> None:
    site.texts = {}
    site.log_more(2)
    archiver = site.carry()
    assert REFERENCE not in site.open().state().dtds
    site.texts = {REFERENCE: TEXT}
    site.carry(archiver)
    assert REFERENCE not in site.open().state().dtds, "asked for again at once"
    site.wall.now += log_archiver.RETRY_MS
    site.carry(archiver)
    assert site.open().read_dtd(REFERENCE) == TEXT
    asked = len(site.asked)
    site.wall.now += 10 * log_archiver.RETRY_MS
    site.carry(archiver)
    site.log_more(1)
    site.carry(archiver)
    assert len(site.asked) == asked, "asked for what is there"


def test_the_next_process_archives_an_earlier_unknown_dtd(site: Site) -> None:
    site.texts = {}
    site.log_more(2)
    site.carry()
    site.texts = {REFERENCE: TEXT}
    site.carry()
    assert site.open().read_dtd(REFERENCE) == TEXT
