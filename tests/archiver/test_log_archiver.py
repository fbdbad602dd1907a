"""From a log into the archive: once, whatever ends, and however retention hurries."""

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
from broker.archiver import log_archiver as archiving
from broker.errors import ArchiveUnavailable
from broker.event.place import Mark
from broker.log.log_file import LogFile
from broker.testing.fragile_disk import SimulatedCrash
from broker.testing.simulated_archive import LogView
from tests.archive.events import HOUR, MORNING, same
from tests.archiver.archived_node import REFERENCE, TEXT, Site
from tests.log.damaging import damage_log, flipped, read_past_damage

# ---------------------------------------------------------------- what is new


def test_what_is_new_goes_into_the_archive_once(site: Site) -> None:
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


def test_a_new_process_goes_on_where_the_archive_ends(site: Site) -> None:
    for count in (4, 1, 7):
        site.log_more(count)
        site.carry()
    assert site.offsets() == list(range(1, 13))


def test_much_goes_in_several_flushes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "FLUSH_EVENTS", 4)
    site.log_more(10)
    archiver = site.archiver()
    assert [archiver.flush() for _ in range(3)] == [True, True, False]
    assert site.offsets() == list(range(1, 11))
    assert archiver.counters.flushes == 3


def test_a_new_epoch_goes_on_behind_the_old_one(site: Site) -> None:
    site.log_more(3)
    archiver = site.carry()
    site.log_more(3, epoch=2)
    site.carry(archiver)
    assert site.covered() == (((0, 0), (2, 6)),)
    assert same(site.archived(), site.made)


def test_damage_in_the_log_stays_a_hole_until_the_log_is_repaired(site: Site) -> None:
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


# ---------------------------------------------------------------- the end at any moment


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


def test_each_step_can_be_the_last(tmp_path: Path) -> None:
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
def test_it_can_end_again_and_again(tmp_path: Path, seed: int) -> None:
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


def test_a_full_disk_is_told_and_nothing_is_missing_afterwards(site: Site) -> None:
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


def test_what_retention_took_first_is_counted_and_does_not_stop_it(tmp_path: Path) -> None:
    site = Site(tmp_path, max_bytes=100_000)
    site.log_more(5)
    archiver = site.carry()
    for _ in range(20):
        site.log_more(5, document=bytes(4_000))
    since = site.log.since[site.origin]
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
    """A log of which something happens between two looks of the archiver, once."""

    def __init__(self, log: LogFile, meanwhile: Callable[[], object]) -> None:
        super().__init__(log)
        self._meanwhile = [meanwhile]

    def read(self, after: Mark, max_events: int, max_bytes: int) -> list[ChunkColumns]:
        while self._meanwhile:
            self._meanwhile.pop()()
        return super().read(after, max_events, max_bytes)


def test_what_retention_takes_between_two_looks_is_not_said_to_be_covered(tmp_path: Path) -> None:
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


def test_what_the_archive_let_go_does_not_come_back_from_the_log(site: Site) -> None:
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


def test_what_is_kept_of_a_dead_origin_is_archived_by_its_keeper(site: Site, keeper: Site) -> None:
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


def test_a_keeper_says_what_others_have_archived_of_its_copies(site: Site, keeper: Site) -> None:
    """Until then they stay, for their node may be lost."""
    site.log_more(6)
    keeper.keep(site.made, (0, 0))
    archiver = keeper.carry()
    assert archiver.reached[site.origin] == (0, 0)
    site.carry()
    keeper.carry(archiver)
    assert archiver.reached[site.origin] == (1, 6)


def test_an_origin_that_comes_back_goes_on_behind_its_keeper(site: Site, keeper: Site) -> None:
    site.log_more(4)
    site.carry()
    site.log_more(6)
    keeper.keep(site.made[2:8], (1, 2))
    keeper.carry(dead=[site.origin])
    assert site.offsets() == list(range(1, 9)), "the keeper wrote what was there"
    site.carry()
    assert site.offsets() == list(range(1, 11))
    assert site.covered() == (((0, 0), (1, 10)),)


def test_an_origin_and_its_keeper_at_once_lose_no_place(site: Site, keeper: Site) -> None:
    site.log_more(4)
    site.carry()
    site.log_more(6)
    keeper.keep(site.made, (0, 0))
    # It has looked when its keeper writes.
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


def test_durables_are_put_changed_and_removed(site: Site) -> None:
    archiver = site.archiver()
    for step, durables in (
        ({"a": b"1", "b": b"1"}, {"a": b"1", "b": b"1"}),
        ({"a": b"2"}, {"a": b"2", "b": b"1"}),
        ({"b": None, "d": b"4"}, {"a": b"2", "d": b"4"}),
        ({"a": None, "d": None}, {}),
    ):
        site.store(step)  # type: ignore[arg-type]
        archiver = site.carry(archiver)
        assert _durables(site.open()) == durables
    site.store({"e": b"5"})
    site.carry()
    site.store({"e": None})
    site.carry()
    assert _durables(site.open()) == {}


def test_durables_that_did_not_change_are_not_put_again(site: Site) -> None:
    site.store({"a": b"1"})
    site.carry()
    before = site.disk.step_count
    site.carry()
    assert site.disk.step_count == before


def test_a_node_that_comes_back_does_not_say_again_what_another_one_changed(
    site: Site, keeper: Site
) -> None:
    site.store({"a": b"old"})
    site.carry()
    site.wall.now += 1_000
    keeper.store({"a": b"new"})
    keeper.carry()
    site.wall.now += 1_000
    site.carry()
    assert _durables(site.open()) == {"a": b"new"}


# ---------------------------------------------------------------- DTDs


def test_a_dtd_that_could_not_be_had_at_first_is_put_later(site: Site) -> None:
    site.texts = {}
    site.log_more(2)
    archiver = site.carry()
    assert REFERENCE not in site.open().state().dtds
    site.texts = {REFERENCE: TEXT}
    site.carry(archiver)
    assert REFERENCE not in site.open().state().dtds, "asked for again at once"
    site.wall.now += archiving.RETRY_MS
    site.carry(archiver)
    assert site.open().read_dtd(REFERENCE) == TEXT
    asked = len(site.asked)
    site.wall.now += 10 * archiving.RETRY_MS
    site.carry(archiver)
    site.log_more(1)
    site.carry(archiver)
    assert len(site.asked) == asked, "asked for what is there"


def test_the_next_process_puts_a_dtd_that_the_last_one_could_not_have(site: Site) -> None:
    site.texts = {}
    site.log_more(2)
    site.carry()
    site.texts = {REFERENCE: TEXT}
    site.carry()
    assert site.open().read_dtd(REFERENCE) == TEXT
