"""Damaged, missing or too many events are reported; all others are found."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broker.archive.archive import Archive
from broker.archive.compaction import Compaction, CompactionRules
from broker.archive.manifest_entry import ArchivedFile
from broker.archive.manifest_journal import ManifestWriter
from broker.archive.table import ID_COLUMNS, events_to_batch
from broker.archive.writer import ArchiveWriter
from broker.errors import (
    ArchiveObjectMissing,
    Overloaded,
    QueryTooExpensive,
    ReplayTooLarge,
    from_wire,
)
from broker.event.place import Mark
from broker.replay.engine import request_matcher
from broker.replay.engine.contract import JobLimits, Report
from broker.replay.engine.local_engine import LocalEngine
from broker.replay.request import ReplayRequest
from tests.recovery.answers import answers, compare
from tests.recovery.world import (
    BEGIN,
    CATALOGUE,
    ORIGINS,
    World,
    archive_world,
    expected,
    make_world,
    some_requests,
)

EVERYTHING = ReplayRequest(">", "true()")


def truncate_file(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def flip_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0x10
    path.write_bytes(bytes(data))


def empty_file(path: Path) -> None:
    path.write_bytes(b"")


def delete_file(path: Path) -> None:
    path.unlink()


#: Each damage of one file. The soak has more files.
each_damage = pytest.mark.parametrize(
    ("damage", "seed"),
    [
        pytest.param(damage, seed, marks=() if seed == number % 3 else pytest.mark.soak)
        for number, damage in enumerate((truncate_file, flip_bit, empty_file, delete_file))
        for seed in range(3)
    ],
)


@pytest.fixture
def world() -> World:
    return make_world(2)


@pytest.fixture
def archive(world: World, tmp_path: Path) -> Archive:
    return archive_world(world, str(tmp_path / "archive"), 2)


def is_inside(file: ArchivedFile, place: tuple[str, Mark]) -> bool:
    origin, mark = place
    return origin in file.spans and file.spans[origin][0] <= mark <= file.spans[origin][1]


def is_reported_missing(report: Report, place: tuple[str, Mark]) -> bool:
    return any(origin == place[0] and a < place[1] <= u for origin, a, u in report.missing_ranges)


@each_damage
def test_an_unreadable_file_is_a_missing_range_and_the_rest_is_found(
    damage: Callable[[Path], None], seed: int, world: World, archive: Archive, tmp_path: Path
) -> None:
    files = sorted(archive.state().files.values(), key=lambda file: file.path)
    victim = random.Random(seed).choice(files)
    damage(tmp_path / "archive" / victim.path)
    requests = [EVERYTHING, ReplayRequest("nowhere", "true()")]
    engine = LocalEngine(archive, CATALOGUE)
    (report, got), (other, _) = answers(engine, requests, tmp_path / "spool")
    places = [(event.origin, event.mark) for event in got]
    right = expected(world, EVERYTHING).places
    lost = [place for place in right if place not in places]
    assert report.missing_ranges
    assert len(lost) <= victim.rows
    # A copy may replace a lost event.
    assert all(is_inside(victim, place) and is_reported_missing(report, place) for place in lost)
    assert other.missing_ranges == ()
    assert victim.path in archive.state().aside
    assert any(victim.path in note for note in report.notes)
    (again, _), _ = answers(engine, requests, tmp_path / "again")
    assert again.missing_ranges == report.missing_ranges


@each_damage
def test_places_without_a_manifest_are_missing_and_the_rest_is_found(
    damage: Callable[[Path], None], seed: int, world: World, archive: Archive, tmp_path: Path
) -> None:
    archive.state()
    manifests = sorted((tmp_path / "archive" / "manifests").rglob("*.json"))
    damage(random.Random(seed).choice(manifests))
    engine = LocalEngine(archive, CATALOGUE)
    [(report, got)] = answers(engine, [EVERYTHING], tmp_path / "spool")
    places = [(event.origin, event.mark) for event in got]
    lost = [each for each in expected(world, EVERYTHING).places if each not in places]
    assert all(
        is_reported_missing(report, place) or place[1] > report.upto.get(place[0], (0, 0))
        for place in lost
    )


def test_a_file_lost_with_its_manifest_during_a_job_is_a_missing_range(
    world: World, archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No compaction replaced the file, though it is not listed any more."""
    before = archive.state()
    victim = max(before.files.values(), key=lambda file: file.rows)
    for path in (tmp_path / "archive" / "manifests").rglob("*.json"):
        if victim.path.encode() in path.read_bytes():
            path.unlink()
    (tmp_path / "archive" / victim.path).unlink()
    states = iter([before])
    real = archive.state
    monkeypatch.setattr(archive, "state", lambda: next(states, None) or real())
    [(report, got)] = answers(LocalEngine(archive, CATALOGUE), [EVERYTHING], tmp_path / "spool")
    places = [(event.origin, event.mark) for event in got]
    lost = [each for each in expected(world, EVERYTHING).places if each not in places]
    assert lost and all(is_reported_missing(report, place) for place in lost)


def test_places_seen_by_another_writer_only_are_missing(
    world: World, archive: Archive, tmp_path: Path
) -> None:
    """The newest manifest of an origin and its files are lost, and no later one shows that."""
    ArchiveWriter(
        Archive.open(str(tmp_path / "archive")), "witness", lambda: BEGIN
    ).report_observed_coverage()
    for name in ("manifests", "events"):
        for path in (tmp_path / "archive" / name).rglob("*"):
            if path.is_file() and "witness" not in str(path):
                path.unlink()
    others_or_named = (
        EVERYTHING,
        ReplayRequest(">", "true()", ranges=dict.fromkeys(ORIGINS, ((0, 0), None)), others=False),
    )
    engine = LocalEngine(archive, CATALOGUE)
    for number, request in enumerate(others_or_named):
        [(report, got)] = answers(engine, [request], tmp_path / f"spool{number}")
        assert got == []
        assert all(
            is_reported_missing(report, place) for place in expected(world, EVERYTHING).places
        )


def test_events_of_replaced_files_are_found_in_the_merged_files(
    world: World, archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = archive.state()
    compacted = Archive.open(str(tmp_path / "archive"))
    compact(compacted)
    after = compacted.state()
    replaced = set(before.files) - set(after.files)
    assert replaced
    states = iter([before, after])
    monkeypatch.setattr(archive, "state", lambda: next(states, after))
    real = archive.open_file

    def open_file(file: ArchivedFile, *, checked: bool = False) -> object:
        if file.path in replaced:
            raise ArchiveObjectMissing(f"there is no {file.path}")
        return real(file, checked=checked)

    monkeypatch.setattr(archive, "open_file", open_file)
    requests = [request for request in some_requests(world, 2, 30) if not request.last]
    got = answers(LocalEngine(archive, CATALOGUE), requests, tmp_path / "spool")
    for request, answer in zip(requests, got, strict=True):
        report, events = answer
        assert report.missing_ranges == ()
        assert [(event.origin, event.mark) for event in events] == expected(world, request).places


def test_a_compacted_archive_gives_the_same_results(
    world: World, archive: Archive, tmp_path: Path
) -> None:
    compact(archive)
    requests = [request for request in some_requests(world, 3, 30) if request.clearance == 2]
    got = answers(LocalEngine(archive, CATALOGUE), requests, tmp_path / "spool")
    for request, answer in zip(requests, got, strict=True):
        compare(world, request, answer)


def test_only_a_request_over_its_limit_fails(
    world: World, archive: Archive, tmp_path: Path
) -> None:
    engine = LocalEngine(archive, CATALOGUE, JobLimits(request_bytes=20_000))
    requests = [EVERYTHING, ReplayRequest(">", "/flight/id = 'UAL7'")]
    (report, other) = engine_reports(engine, requests, tmp_path / "spool")
    assert report.error is not None
    assert isinstance(from_wire(report.error), ReplayTooLarge)
    assert other.error is None
    assert other.events == len(expected(world, requests[1]).places)


def test_over_the_job_limit_the_largest_requests_fail_first(
    world: World, archive: Archive, tmp_path: Path
) -> None:
    small = [ReplayRequest(">", f"/flight/id = 'UAL{number}'") for number in range(9)]
    engine = LocalEngine(archive, CATALOGUE, JobLimits(deliveries=len(world.events)))
    reports = engine_reports(engine, [*small, EVERYTHING], tmp_path / "spool")
    assert [report.error is None for report in reports] == [True] * 9 + [False]


def test_a_job_over_its_disk_limit_fails_as_overloaded(archive: Archive, tmp_path: Path) -> None:
    engine = LocalEngine(archive, CATALOGUE, JobLimits(disk_bytes=2_000))
    [report] = engine_reports(engine, [EVERYTHING], tmp_path / "spool")
    assert report.error is not None
    assert isinstance(from_wire(report.error), Overloaded)


def test_only_a_query_that_takes_too_long_fails(
    world: World, archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_matcher, "_MAX_QUERY_SECONDS", 1e-9)
    slow = ReplayRequest(">", "count(//*[count(//*) > 1]) > sum(//@*)")
    (report, other) = engine_reports(
        LocalEngine(archive, CATALOGUE), [slow, EVERYTHING], tmp_path / "spool"
    )
    assert report.error is not None
    assert isinstance(from_wire(report.error), QueryTooExpensive)
    assert other.events == len(expected(world, EVERYTHING).places)


def test_a_full_disk_leaves_no_incomplete_file(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_writer: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("broker.replay.spool.PartWriter._close", full)
    # The subscription waits for space instead of ending.
    with pytest.raises(Overloaded, match="No space left"):
        engine_reports(LocalEngine(archive, CATALOGUE), [EVERYTHING], tmp_path / "spool")
    assert list((tmp_path / "spool").iterdir()) == []


def compact(archive: Archive) -> None:
    ledger = ManifestWriter(archive.manifests, "compactor-1", lambda: BEGIN)
    assert Compaction(archive, ledger, CompactionRules(min_files_in_open_hour=2)).run().merges


def engine_reports(
    engine: LocalEngine, requests: list[ReplayRequest], folder: Path
) -> list[Report]:
    folder.mkdir()
    return engine.run(requests, folder, lambda done, of: None, lambda: False)


def test_a_damaged_file_of_copies_hides_no_event(tmp_path: Path) -> None:
    """Copies are found by EventId. Here a damaged file has the EventIds of later events."""
    worlds = map(make_world, range(9))
    world = next(each for each in worlds if len({origin for origin, _ in each.events}) > 1)
    archive = archive_world(world, str(tmp_path / "archive"), 2)
    origin = min(name for name, _ in world.events)
    marks = [mark for name, mark in world.events if name == origin]
    passed = marks[len(marks) // 2]
    request = ReplayRequest(">", "true()", ranges={origin: (passed, None)})
    [(_, before)] = answers(LocalEngine(archive, CATALOGUE), [request], tmp_path / "before")
    to_come = events_to_batch(before)
    for file in archive.state().files.values():
        if set(file.spans) == {origin} and file.spans[origin][1] <= passed:
            path = tmp_path / "archive" / file.path
            rows = pq.read_table(path)
            for name in ID_COLUMNS:
                field = rows.schema.field(name)
                values = (to_come.column(name).to_pylist() * file.rows)[: file.rows]
                column = pa.array(values, pa.string() if name == "client" else field.type)
                index = rows.schema.get_field_index(name)
                rows = rows.set_column(index, field, column.cast(field.type))
            pq.write_table(rows, path)
    [(report, after)] = answers(LocalEngine(archive, CATALOGUE), [request], tmp_path / "after")
    places = {(event.origin, event.mark) for event in after}
    assert {(event.origin, event.mark) for event in before} <= places
    assert any("no search for copies" in note for note in report.notes)
