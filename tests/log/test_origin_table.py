from __future__ import annotations

from pathlib import Path
from random import Random

import attrs
import pytest

from broker.event.place import Mark
from broker.log.chunk_places import all_places
from broker.log.commit import Commit, Retention
from broker.log.coverage import Coverage
from broker.log.log_file import LogFile
from broker.log.logged_event import LoggedEvent
from tests.seeds import seeds


def logged(origin: str, epoch: int, offset: int, serial: int, size: int = 300) -> LoggedEvent:
    return LoggedEvent(epoch, offset, serial, 0, b"\x90", b"x" * size, origin, serial)


def filled(log: LogFile, random: Random, commits: int) -> list[LoggedEvent]:
    offsets = dict.fromkeys(("a", "b", "c"), 0)
    everything: list[LoggedEvent] = []
    for _ in range(commits):
        commit = Commit()
        for _ in range(random.randrange(1, 4)):
            origin = random.choice("abc")
            for _ in range(random.randrange(1, 60)):
                offsets[origin] += random.choice((1, 1, 1, 5))
                epoch = 1 + offsets[origin] // 200
                serial = len(everything) + 1
                event = logged(origin, epoch, offsets[origin], serial)
                commit.events.append(event)
                commit.covered[origin] = event.mark
                everything.append(event)
        log.commit(commit, 1, 0)
    return everything


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_the_events_of_an_origin_are_found_behind_any_mark(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    log = LogFile(tmp_path, Retention(), sync=False)
    everything = filled(log, random, 30)
    for _ in range(200):
        origin = random.choice("abcd")
        mark = (random.randrange(0, 6), random.randrange(0, 900))
        behind = [event for event in everything if event.origin == origin and event.mark > mark]
        most = random.randrange(1, 300)
        read = log.read_origin(origin, mark, most, 1 << 40)
        assert [event.place for event in read] == [event.place for event in behind[:most]]
        first = behind[0].serial if behind else len(everything) + 1
        assert log.first_after(origin, mark) == first, f"seed {seed}"
        serial = random.randrange(0, len(everything) + 2)
        before = {event.origin: event.mark for event in everything if event.serial < serial}
        assert log.position_before(serial) == before, f"seed {seed}"
    log.close()


def test_a_page_of_an_origin_is_bounded_in_bytes(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention(), sync=False)
    log.commit(Commit([logged("a", 1, n, n) for n in range(1, 101)]), 1, 0)
    assert [event.offset for event in log.read_origin("a", (1, 10), 100, 1000)] == [11, 12, 13]
    assert [event.offset for event in log.read_origin("a", (1, 10), 100, 1)] == [11]
    log.close()


def test_the_beginning_after_retention_is_known_for_each_origin(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention(max_bytes=1 << 20), sync=False)
    everything = filled(log, Random(1), 300)
    kept = {event.serial for event in log.read(0, 1 << 30, 1 << 40)}
    gone: dict[str, Mark] = {e.origin: e.mark for e in everything if e.serial not in kept}
    assert gone and log.begins_after == gone
    log.close()
    again = LogFile(tmp_path, Retention(max_bytes=1 << 20), sync=False)
    assert again.begins_after == gone
    assert again.covered == {event.origin: event.mark for event in everything}
    again.close()


def test_a_loss_of_another_log_survives_retention(
    tmp_path: Path,
) -> None:
    retention = Retention(max_age_ms=1000)
    log = LogFile(tmp_path, retention, sync=False)
    log.commit(Commit([logged("far", 1, n, n) for n in range(1, 4)], covered={"far": (1, 3)}), 1, 0)
    # Events after missing ones arrive, and retention removes those before, in one commit.
    late = [attrs.evolve(logged("far", 1, 9, 4), arrival=10_000)]
    log.commit(Commit(late, covered={"far": (1, 9)}, begins_after={"far": (1, 8)}), 1, 10_000)
    assert log.begins_after == {"far": (1, 8)}
    log.close()
    again = LogFile(tmp_path, retention, sync=False)
    assert again.begins_after == {"far": (1, 8)}
    again.close()


def test_coverage_without_events_survives_a_restart(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention(), sync=False)
    log.commit(Commit(covered={"far": (3, 70)}, begins_after={"far": (3, 50)}), 1, 0)
    log.crash()
    again = LogFile(tmp_path, Retention(), sync=False)
    assert (again.covered, again.begins_after) == ({"far": (3, 70)}, {"far": (3, 50)})
    again.close()


def test_coverage_lists_changes_since_a_version() -> None:
    coverage = Coverage({"a": (1, 1), "b": (1, 1)})
    assert coverage.changed_since(0) == []
    coverage.advance({"a": (1, 2)})
    seen = coverage.version
    coverage.advance({"c": (1, 5)})
    coverage.advance({"a": (1, 3)})
    assert dict(coverage.changed_since(seen)) == {"a": (1, 3), "c": (1, 5)}
    assert dict(coverage.changed_since(0)) == {"a": (1, 3), "c": (1, 5)}
    assert coverage["b"] == (1, 1) and coverage["unknown"] == (0, 0)
    coverage.advance({})
    assert coverage.changed_since(coverage.version) == []


def test_with_its_chunk_retention_takes_the_place_of_it(tmp_path: Path) -> None:
    log = LogFile(tmp_path, Retention(max_bytes=40_000), sync=False)
    everything = filled(log, Random(1), 40)
    assert log.bounds.first > 500
    left = [event for event in everything if event.serial >= log.bounds.first]
    origins = log._tables.origins
    with log._env.begin(db=log._tables.origins._table) as txn:
        entries = [places for _, places in all_places(txn, origins._table)]
        assert None not in entries
        serials = sorted(places.serial for places in entries if places is not None)
        assert serials[0] == log.bounds.first
        for origin, since in origins.begins_after(txn).items():
            first = next(event for event in left if event.origin == origin)
            # Unneeded places may lie between.
            assert since <= origins._before_first(txn, origin) < first.mark
        assert origins._before_first(txn, "none") == (0, 0)
    log.close()
    again = LogFile(tmp_path, Retention(max_bytes=40_000), sync=False)
    assert (again.startup_repairs.healed, again.startup_repairs.lost) == (0, ())
    again.close()
