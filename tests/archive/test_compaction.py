from __future__ import annotations

import gc
from pathlib import Path
from random import Random

import attrs
import pyarrow as pa
import pytest

from broker.archive import parquet, sorted_merge
from broker.archive.archive import Archive
from broker.archive.compaction import Compaction, CompactionRules, plan_merges
from broker.archive.manifest_entry import ArchivedFile
from broker.archive.manifest_journal import ManifestWriter
from broker.archive.table import FILE_SCHEMAS
from broker.archive.verification import check_file
from broker.archive.writer import ArchiveWriter
from broker.errors import ArchiveUnavailable
from broker.event.annotation import with_annotation
from broker.event.order_entry import OrderEntry, encode_order_entry
from broker.log.logged_event import LoggedEvent
from broker.testing.fragile_disk import FragileDisk
from tests.archive.events import (
    HOUR,
    MORNING,
    Wall,
    covering,
    event,
    events,
    everything_in,
    once,
    same,
)
from tests.seeds import seeds

RULES = CompactionRules(min_files_in_open_hour=4)


class Place:
    def __init__(self) -> None:
        self.wall = Wall()
        self.disk = FragileDisk(self.wall)
        self.archive = self.opened()
        self.writer = ArchiveWriter(self.archive, "aa", self.wall)

    def opened(self) -> Archive:
        return Archive.open("/archive", wall_clock=self.wall, disk=self.disk)

    def compaction(self, rules: CompactionRules = RULES, name: str = "compactor") -> Compaction:
        archive = self.opened()
        return Compaction(archive, ManifestWriter(archive.manifests, name, self.wall), rules)


@pytest.fixture
def place() -> Place:
    return Place()


def test_the_files_of_a_settled_hour_become_one(place: Place) -> None:
    made = [event(n) for n in range(1, 41)]
    for start in range(0, 40, 5):
        place.writer.write(covering(made[start : start + 5]), made[start : start + 5], {})
    place.wall.now += 2 * HOUR
    done = place.compaction().run()
    state = place.archive.state()
    assert (done.merges, done.files_before, done.files_after, done.duplicates) == (1, 8, 1, 0)
    [file] = state.files.values()
    assert (file.rows, file.spans) == (40, {"aa": ((1, 1), (1, 40))})
    assert same(everything_in(place.archive), made)
    assert state.covers("aa", (1, 0), (1, 40))
    assert place.compaction().plan() == []


@pytest.mark.parametrize("ordered", [0, 10, 30])
@pytest.mark.parametrize("annotated", [0, 1, 20, 40])
def test_a_merged_file_has_the_optional_columns_if_an_event_has_a_value(
    annotated: int, ordered: int, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row groups without the columns are written before."""
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 60)
    made = [event(n) for n in range(1, 41)]
    if annotated:
        made[annotated - 1].record = with_annotation(made[annotated - 1].record, b"a")
    if ordered:
        entry = encode_order_entry(OrderEntry("ops", "b", 1, 1, 5, "logical"))
        made[ordered - 1].record = with_annotation(made[ordered - 1].record, entry)
    for start in range(0, 40, 5):
        place.writer.write(covering(made[start : start + 5]), made[start : start + 5], {})
    before = [column_names(place.archive, file) for file in place.archive.state().files.values()]
    assert sum("annotation" in names for names in before) == bool(annotated) + bool(ordered)
    assert sum("stack_site" in names for names in before) == bool(ordered)
    place.wall.now += 2 * HOUR
    assert place.compaction().run().files_after == 1
    [file] = place.archive.state().files.values()
    optional = FILE_SCHEMAS[2 if ordered else 1 if annotated else 0].names
    assert column_names(place.archive, file) == optional
    assert file.rows == 40 and same(everything_in(place.archive), made)
    check_file(place.archive, file)
    assert place.compaction().plan() == []


def column_names(archive: Archive, file: ArchivedFile) -> list[str]:
    with archive.open_file(file, checked=True) as opened:
        return list(opened.schema_arrow.names)


def test_a_place_written_twice_occurs_once_after_compaction(place: Place) -> None:
    made = events(range(1, 31))
    neighbour = ArchiveWriter(place.opened(), "neighbour", place.wall)
    place.writer.write(covering(made[:20]), made[:20], {})
    neighbour.write(covering(made[10:]), made[10:], {})
    neighbour.write(covering(made[5:25]), made[5:25], {})
    assert len(everything_in(place.archive)) == 60
    place.wall.now += 2 * HOUR
    assert place.compaction().run().duplicates == 30
    assert same(everything_in(place.archive), made)


def test_of_a_place_written_again_the_lowest_stamp_stays(place: Place) -> None:
    stamps = {1: (None, 7), 2: (7, None), 3: (8, 7), 4: (7, 8), 5: (7, 7), 6: (None, None)}

    def stamped(which: int) -> list[LoggedEvent]:
        made = events(stamps)
        for each, number in zip(made, stamps, strict=True):
            stamp = stamps[number][which]
            # At number 5 the site decides.
            site = "a" if number == 5 and which else "b"
            entry = OrderEntry("ops", "c", 1, number, stamp, "sequencer", tie=site)
            each.record = with_annotation(each.record, encode_order_entry(entry))
        return made

    for which in (0, 1):
        place.writer.write(covering(stamped(which)), stamped(which), {})
    place.wall.now += 2 * HOUR
    assert place.compaction().run().duplicates == 6
    first, second = stamped(0), stamped(1)
    assert same(
        everything_in(place.archive),
        [second[0], first[1], second[2], first[3], second[4], first[5]],
    )


@pytest.mark.parametrize("seed", seeds(3, 30))
def test_compaction_keeps_all_events(
    seed: int, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 60)
    random = Random(seed)
    batch = random.choice((1, 3, 100))
    monkeypatch.setattr(
        Compaction, "_read", lambda self, file: self._archive.read(file, batch_rows=batch)
    )
    made = [
        event(number, origin=origin, epoch=number // 20 + 1, stream=f"s.t{number % 3}")
        for origin in "abc"
        for number in range(1, 41)
    ]
    for each in random.sample(made, random.choice((0, 1, 60))):
        each.record = with_annotation(each.record, b"%d" % each.offset)
    for _ in range(random.randrange(2, 12)):
        some = sorted(
            random.sample(made, random.randrange(1, 60)), key=lambda each: each.offset // 10
        )
        place.writer.write([], some, {})
    written = once(everything_in(place.archive))
    place.wall.now += 2 * HOUR
    rows = random.choice((10, 40, 1000))
    rules = CompactionRules(target_rows=rows, target_bytes=random.choice((10_000, 1 << 20)))
    place.compaction(rules).run()
    found = everything_in(place.archive)
    if rows == 1000 and rules.target_bytes > 10_000:
        assert same(found, written)
    assert same(once(found), written)


def test_many_files_of_an_open_hour_are_merged(place: Place) -> None:
    for number in range(1, 4):
        place.writer.write([], [event(number)], {})
    assert place.compaction().plan() == []
    place.writer.write([], [event(4)], {})
    assert place.compaction().run().files_before == 4


def test_each_byte_is_merged_seldom(place: Place) -> None:
    """Merged files wait until new ones have as many bytes."""
    merged = 0
    for number in range(1, 101):
        document = b"%d" % number * 400
        place.writer.write([], [event(number, document=document)], {})
        merged += place.compaction().run().files_before
    assert merged < 100 * 5
    assert len(place.archive.state().files) < 20


def test_a_large_stream_moves_out_of_a_shared_partition(place: Place) -> None:
    chance = Random(1)
    made = [
        event(n, stream=f"feed.s{n % 40 if n % 2 else 0}", document=chance.randbytes(2000))
        for n in range(1, 401)
    ]
    for start in (0, 200):
        place.writer.write(covering(made)[:1], made[start : start + 200], {})
    assert {file.partition for file in place.archive.state().files.values()} == {"feed.+"}
    place.wall.now += 2 * HOUR
    place.compaction(CompactionRules(split_bytes=200_000)).run()
    sizes = {file.partition: file.rows for file in place.archive.state().files.values()}
    assert sizes == {"feed.s0": 200, "feed.+": 200}
    assert same(everything_in(place.archive), made)


def test_a_damaged_file_is_set_aside_and_the_rest_is_merged(place: Place) -> None:
    made = [event(n) for n in range(1, 13)]
    paths = [place.writer.write(covering([e]), [e], {}).files[0] for e in made]
    place.disk.damage_file(Path("/archive", paths[4]), lambda data: data[:-9] + bytes(9))
    place.wall.now += 2 * HOUR
    first = place.compaction().run()
    assert (first.damaged, first.passed_over) == ([paths[4]], 1)
    assert place.compaction().run().files_before == 11
    state = place.archive.state()
    assert list(state.aside) == [paths[4]]
    assert same(everything_in(place.archive), made[:4] + made[5:])
    assert not state.covers("aa", (1, 4), (1, 5))
    assert state.covers("aa", (1, 5), (1, 12))


def test_a_file_out_of_order_is_damaged(place: Place) -> None:
    written = place.writer.write([], [event(1), event(2)], {})
    [file] = place.archive.state().files.values()
    other = attrs.evolve(file, spans={"aa": ((1, 2), (1, 2))})
    with pytest.raises(sorted_merge.DamagedFileError, match="its first place is not"):
        list(sorted_merge.merge_rows([other], place.archive.read))
    [batch] = place.archive.read(file)

    def backwards(_: ArchivedFile) -> list[pa.RecordBatch]:
        return [batch.slice(0, 1), batch.slice(0, 1)]

    with pytest.raises(sorted_merge.DamagedFileError, match="do not ascend"):
        list(sorted_merge.merge_rows([file], lambda each: iter(backwards(each))))
    assert written.rows == 2


def test_a_missing_file_is_set_aside_for_repair(place: Place) -> None:
    for number in (1, 2):
        place.writer.write([], [event(number)], {})
    place.wall.now += 2 * HOUR
    compaction = place.compaction()
    missing = next(iter(place.archive.state().files))
    place.archive.objects.delete([missing])
    done = compaction.run()
    assert (done.merges, done.passed_over, done.damaged) == (0, 1, [missing])
    assert missing not in place.archive.state().files


def test_consecutive_files_are_not_open_at_once(place: Place) -> None:
    for number in range(1, 9):
        place.writer.write([], [event(number)], {})
    alive: list[int] = []

    def read(file: ArchivedFile) -> object:
        alive.append(1)
        yield from place.archive.read(file)
        alive.pop()

    files = list(place.archive.state().files.values())
    most = 0
    for _ in sorted_merge.merge_rows(files, read):  # type: ignore[arg-type]
        gc.collect()
        most = max(most, len(alive))
    assert most == 1


def test_a_full_disk_leaves_the_archive_unchanged() -> None:
    made = [event(n) for n in range(1, 13)]
    for room in range(0, 9_000, 907):
        place = Place()
        for each in made:
            place.writer.write(covering([each]), [each], {})
        place.wall.now += 2 * HOUR
        before = set(place.archive.state().files)
        place.disk.free_bytes = room
        try:
            place.compaction(name=f"c{room}").run()
        except ArchiveUnavailable as error:
            assert "No space left" in error.text
            assert set(place.opened().state().files) == before
        place.disk.free_bytes = None
        place.compaction().run()
        assert len(place.archive.state().files) == 1
        assert same(everything_in(place.archive), made)


def test_a_large_file_is_not_merged() -> None:
    def file(number: int, size: int) -> ArchivedFile:
        return ArchivedFile(
            *(f"{number}", "s", "2026-11-20T07", 10, size, ""),
            *({"aa": ((1, number), (1, number))}, (MORNING, MORNING), (1,), ("s",), ()),
        )

    files = [file(1, 60), file(2, 10), file(3, 45), file(4, 45), file(5, 20)]
    plan = plan_merges(files, CompactionRules(target_bytes=100), MORNING + 2 * HOUR)
    assert [[each.path for each in merge.files] for merge in plan] == [["2", "3", "4"]]
