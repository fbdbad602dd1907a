from __future__ import annotations

from pathlib import Path

import pytest

from broker.archive.archive import Archive
from broker.archive.writer import ArchiveWriter
from broker.dtd.reference import DtdReference
from broker.errors import ArchiveObjectMissing, ArchiveUnavailable, BadName
from broker.testing.fragile_disk import FragileDisk
from tests.archive.events import (
    HOUR,
    MORNING,
    covering,
    event,
    events,
    everything_in,
    same,
)

TEXT = DtdReference("event", "1.0")


def clock() -> int:
    return MORNING


def writing(folder: Path, name: str = "aa") -> tuple[Archive, ArchiveWriter]:
    archive = Archive.open(str(folder), wall_clock=clock)
    return archive, ArchiveWriter(archive, name, clock)


def test_another_process_reads_written_events(tmp_path: Path) -> None:
    _, writer = writing(tmp_path)
    made = events(range(1, 10))
    written = writer.write(covering(made), made, {TEXT: b"<!ELEMENT e ANY>"})
    archive = Archive.open(tmp_path.as_uri(), create=False)
    assert written.rows == len(made)
    assert set(written.files) == set(archive.state().files)
    assert same(everything_in(archive), made)
    assert archive.read_dtd(TEXT) == b"<!ELEMENT e ANY>"


def test_a_manifest_describes_a_file(tmp_path: Path) -> None:
    archive, writer = writing(tmp_path)
    made = [event(n, stream="a.b") for n in (2, 5, 7)]
    written = writer.write([("aa", (1, 0), (1, 9))], made, {})
    [file] = archive.state().files.values()
    assert (tmp_path / file.path).stat().st_size == file.bytes == written.bytes
    assert file.spans == {"aa": ((1, 2), (1, 7))}
    assert file.arrivals == (MORNING + 2, MORNING + 7)
    assert (file.partition, file.hour, file.rows) == ("a.b", "2026-11-20T07", 3)
    assert (file.levels, file.streams, file.types) == ((1, 2), ("a.b",), (("event", "1.0"),))
    assert file.path.startswith("events/a.b/2026-11-20T07/aa-1-2-7-")


def test_streams_and_hours_have_separate_files(tmp_path: Path) -> None:
    archive, writer = writing(tmp_path)
    made = [
        event(n, stream=stream, arrival=MORNING + n // 2 * HOUR)
        for n, stream in enumerate(["a", "b", "a", "b"], 1)
    ]
    writer.write(covering(made), made, {})
    state = archive.state()
    assert {(file.partition, file.hour[-2:]) for file in state.files.values()} == {
        *(("a", "07"), ("b", "08"), ("a", "08"), ("b", "09"))
    }
    assert same(everything_in(archive), made)


def test_many_streams_share_few_files(tmp_path: Path) -> None:
    archive, writer = writing(tmp_path)
    made = [event(n, stream=f"feed.s{n}") for n in range(1, 1001)]
    writer.write(covering(made), made, {})
    [file] = archive.state().files.values()
    assert (file.partition, file.streams) == ("feed.+", None)
    assert same(everything_in(archive), made)


def test_rows_are_sorted_by_place(tmp_path: Path) -> None:
    archive, writer = writing(tmp_path)
    made = [event(n, origin=origin, epoch=e) for origin in "ba" for e in (2, 1) for n in (9, 3)]
    writer.write([("a", (1, 0), (2, 9)), ("b", (1, 0), (2, 9))], made, {})
    [file] = archive.state().files.values()
    [batch] = archive.read(file, ["origin", "epoch", "offset"])
    places = [tuple(row.values()) for row in batch.to_pylist()]
    assert places == sorted(places)
    assert file.spans == {"a": ((1, 3), (2, 9)), "b": ((1, 3), (2, 9))}


def test_a_flush_without_events_covers_its_ranges(tmp_path: Path) -> None:
    archive, writer = writing(tmp_path)
    written = writer.write([("aa", (1, 0), (1, 7))], [], {})
    assert (written.files, written.rows, written.bytes) == ((), 0, 0)
    assert archive.state().covers("aa", (1, 3), (1, 7))
    assert not archive.state().covers("aa", (1, 3), (1, 8))


def test_coverage_ends_before_a_missing_range(tmp_path: Path) -> None:
    archive, writer = writing(tmp_path)
    for after, upto in (((1, 0), (1, 4)), ((1, 6), (1, 9)), ((1, 4), (1, 5))):
        writer.write([("aa", after, upto)], [], {})
    state = archive.state()
    assert state.covered_upto("aa", (1, 2)) == (1, 5)
    assert state.covered_upto("aa", (1, 5)) == (1, 5)
    assert state.covered_upto("aa", (1, 7)) == (1, 9)
    assert state.covered_upto("bb", (1, 7)) == (1, 7)


def test_the_text_of_a_dtd_is_stored_once_for_all(tmp_path: Path) -> None:
    archive, first = writing(tmp_path)
    _, second = writing(tmp_path, "bb")
    for writer in (first, first, second):
        writer.write([], [], {TEXT: b"one"})
    assert len(archive.state().manifest.dtds) == 1
    second.write([], [], {TEXT: b"another"})
    assert archive.read_dtd(TEXT) == b"one"
    assert len(archive.state().manifest.dtds) == 2


def test_a_missing_dtd_raises_an_error(tmp_path: Path) -> None:
    archive, _ = writing(tmp_path)
    with pytest.raises(ArchiveObjectMissing):
        archive.read_dtd(TEXT)


def test_an_invalid_name_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(BadName):
        writing(tmp_path, "../aa")


def test_a_full_disk_lists_no_incomplete_file() -> None:
    made = events(range(1, 31))
    for room in range(0, 12_000, 293):
        disk = FragileDisk(clock)
        archive = Archive.open("/archive", wall_clock=clock, disk=disk)
        writer = ArchiveWriter(archive, "aa", clock)
        writer.write(covering(made[:10]), made[:10], {})
        disk.free_bytes = room
        flush = made[10:20]
        try:
            writer.write(covering(flush), flush, {TEXT: b"text"})
        except ArchiveUnavailable as error:
            assert "No space left" in error.text
            assert same(everything_in(archive), made[:10])
            assert archive.state().covered_upto("aa", (1, 0)) == made[9].mark
            # A failed flush frees its space.
            assert disk.free_bytes == room
            disk.free_bytes = None
            writer.write(covering(flush), flush, {TEXT: b"text"})
        disk.free_bytes = None
        writer.write(covering(made[20:]), made[20:], {})
        assert same(everything_in(archive), made)
        assert archive.state().problems == {}


def test_two_writers_of_one_name_do_not_overwrite_each_other(tmp_path: Path) -> None:
    archive, first = writing(tmp_path)
    _, second = writing(tmp_path)
    made = events(range(1, 7))
    first.write(covering(made[:2]), made[:2], {})
    second.write(covering(made[2:4]), made[2:4], {})
    # The second writer has used the number.
    with pytest.raises(ArchiveUnavailable):
        first.write(covering(made[4:]), made[4:], {})
    assert same(everything_in(archive), made[:4])
    first.write(covering(made[4:]), made[4:], {})
    assert same(everything_in(archive), made)
