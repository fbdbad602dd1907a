"""A job reads only the files that it needs."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broker.archive.archive import Archive
from broker.archive.manifest_entry import ArchivedFile
from broker.archive.table import FILE_SCHEMAS, events_to_batch
from broker.log.logged_event import encode_header
from broker.replay.engine import part_scan
from broker.replay.engine.contract import DEFAULT_LIMITS
from broker.replay.engine.local_engine import LocalEngine
from broker.replay.engine.part_scan import scan_part
from broker.replay.engine.plan import Plan, make_plan
from broker.replay.engine.request_matcher import RequestMatcher
from broker.replay.engine.request_scope import RequestScopes
from broker.replay.request import ReplayRequest
from tests.archive.events import events
from tests.recovery.answers import answers
from tests.recovery.world import (
    BEGIN,
    CATALOGUE,
    World,
    archive_world,
    expected,
    header_of,
    make_world,
    some_requests,
)

HOUR = 3_600_000


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(6)


@pytest.fixture(scope="module")
def archive(world: World, tmp_path_factory: pytest.TempPathFactory) -> Archive:
    return archive_world(world, str(tmp_path_factory.mktemp("archive")), 6)


def planned(archive: Archive, *requests: ReplayRequest) -> Plan:
    return make_plan(archive.state(), requests)


def files(archive: Archive, *requests: ReplayRequest) -> set[str]:
    return {part.file.path for part in planned(archive, *requests).parts}


@pytest.mark.parametrize("seed", range(10))
def test_no_requested_event_is_in_a_skipped_file(seed: int, world: World, archive: Archive) -> None:
    for request in some_requests(world, seed, 20):
        parts = planned(archive, request).parts
        for origin, mark in expected(world, request).places:
            stream = header_of(world.events[origin, mark]).stream
            assert any(
                origin in part.file.spans
                and part.file.spans[origin][0] <= mark <= part.file.spans[origin][1]
                and part.file.streams is not None
                and stream in part.file.streams
                for part in parts
            )


def test_only_partitions_of_the_pattern_are_read(archive: Archive) -> None:
    everything = archive.state().files
    read = files(archive, ReplayRequest("asdi.>", "true()"))
    assert read == {path for path, file in everything.items() if file.partition.startswith("asdi")}
    assert files(archive, ReplayRequest("nowhere", "true()")) == set()


def test_only_hours_of_the_time_range_are_read(archive: Archive) -> None:
    hours = {file.hour for file in archive.state().files.values()}
    assert len(hours) > 1
    next_hour = (BEGIN // HOUR + 1) * HOUR
    read = planned(archive, ReplayRequest(">", "true()", from_ms=next_hour)).parts
    assert {part.file.hour for part in read} == {max(hours)}
    read = planned(archive, ReplayRequest(">", "true()", until_ms=next_hour)).parts
    assert max(hours) not in {part.file.hour for part in read}


def test_an_up_to_date_request_reads_nothing(world: World, archive: Archive) -> None:
    origins = {name for name, _ in world.events}
    ranges = {origin: (world.upto(origin), None) for origin in origins}
    assert files(archive, ReplayRequest(">", "true()", ranges=ranges)) == set()
    one = min(origins)
    alone = {one: ((0, 0), None)}
    read = planned(archive, ReplayRequest(">", "true()", ranges=alone, others=False))
    assert all(one in part.file.spans for part in read.parts)


def test_each_part_has_its_requests(archive: Archive) -> None:
    requests = [ReplayRequest("asdi.>", "/flight"), ReplayRequest("notes.>", "/note")]
    for part in planned(archive, *requests).parts:
        wanted = 0 if part.file.partition.startswith("asdi") else 1
        assert part.requests.tolist() == [wanted]


def test_a_request_for_the_last_events_reads_only_the_newest_files(
    world: World, archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.replay.engine.job._FIRST_ROWS", 10)
    read: list[ArchivedFile] = []
    real = archive.open_file

    def open_file(file: ArchivedFile, *, checked: bool = False) -> object:
        read.append(file)
        return real(file, checked=checked)

    monkeypatch.setattr(archive, "open_file", open_file)
    requests = [ReplayRequest(">", "//altitude > 200", last=number) for number in (1, 3)]
    got = answers(LocalEngine(archive, CATALOGUE), requests, tmp_path / "spool")
    for request, (_, found) in zip(requests, got, strict=True):
        assert [(e.origin, e.mark) for e in found] == expected(world, request).places
    everything = sum(file.rows for file in archive.state().files.values())
    assert sum(file.rows for file in read) < everything / 2


def test_row_groups_without_the_requested_times_are_skipped() -> None:
    groups: list[list[int | None]] = [[None, None], [5, None], [70, 90], [None, 3]]
    made = events(range(1, 9))
    for event, time in zip(made, chain.from_iterable(groups), strict=True):
        event.record = encode_header(header_of(event)._replace(time=time))
    rows = pa.Table.from_batches([events_to_batch(made)])
    columns = len(FILE_SCHEMAS[0])

    def chosen(rows: pa.Table, **request: Any) -> list[int]:
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, row_group_size=2)
        metadata = pq.read_metadata(pa.BufferReader(sink.getvalue()))
        scope = RequestScopes([ReplayRequest(">", "true()", **request)], ())
        bounds = [part_scan._row_group_bounds(metadata, n) for n in range(metadata.num_row_groups)]
        return [n for n, each in enumerate(bounds) if scope.overlaps_bounds(each).all()]

    assert chosen(rows) == [0, 1, 2, 3]
    assert chosen(rows, event_times=(0, 1000)) == [1, 2, 3]
    assert chosen(rows, event_times=(4, 0)) == [1, 2]
    assert chosen(rows, event_times=(91, 0)) == chosen(rows, event_times=(6, 70)) == []
    assert chosen(rows, event_times=(90, 91)) == [2]
    # Files of earlier versions do not have the column.
    old = rows.select(range(columns))
    assert (chosen(old), chosen(old, event_times=(1, 0))) == ([0, 1, 2, 3], [])


def test_row_groups_without_requested_events_are_skipped(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.archive.parquet.ROW_GROUP_BYTES", 4_000)
    archive = archive_world(world, str(tmp_path / "archive"), 1)
    part = max(
        planned(archive, ReplayRequest(">", "true()")).parts, key=lambda part: part.file.rows
    )
    [origin] = part.file.spans
    last = part.file.spans[origin][1]
    request = ReplayRequest(">", "true()", ranges={origin: ((last[0], last[1] - 1), None)})
    chosen = planned(archive, request)
    groups: list[list[int]] = []

    class Opened:
        def __init__(self, file: object) -> None:
            self._file = file

        def __enter__(self) -> Opened:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()  # type: ignore[attr-defined]

        def __getattr__(self, name: str) -> object:
            return getattr(self._file, name)

        def iter_batches(self, rows: int, wanted: list[int], **more: object) -> object:
            groups.append(wanted)
            return self._file.iter_batches(rows, wanted, **more)  # type: ignore[attr-defined]

    real = archive.open_file
    monkeypatch.setattr(archive, "open_file", lambda file, checked: Opened(real(file)))
    matcher = RequestMatcher([request], chosen.origins, world.dtds, lambda: 0.0)
    of_part = [each for each in chosen.parts if each.file.path == part.file.path]
    for each in of_part:
        list(scan_part(archive, each, matcher, DEFAULT_LIMITS))
    with real(part.file) as opened:
        assert groups == [[opened.metadata.num_row_groups - 1]]
        assert opened.metadata.num_row_groups > 1
    assert np.all(of_part[0].requests == [0])
