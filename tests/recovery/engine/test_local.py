"""The pure-Python engine against what is right by looking at each event."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.recovery.engine.contract import Report
from broker.recovery.engine.local import LocalEngine
from broker.recovery.request import ReplayRequest
from broker.recovery.spool import Spool
from broker.store.archive.archive import Archive
from broker.store.records import LoggedEvent
from tests.recovery.world import (
    CATALOGUE,
    World,
    archive_world,
    expected,
    make_world,
    some_requests,
)


def run(
    archive: Archive, requests: list[ReplayRequest], folder: Path
) -> list[tuple[Report, list[LoggedEvent]]]:
    folder.mkdir()
    engine = LocalEngine(archive, CATALOGUE)
    reports = engine.run(requests, folder, lambda done, of: None, lambda: False)
    spool = Spool(folder)
    return [
        (report, spool.read(number, 0, 100_000, 1 << 30)) for number, report in enumerate(reports)
    ]


def compare(world: World, request: ReplayRequest, report: Report, got: list[LoggedEvent]) -> None:
    right = expected(world, request)
    assert [(event.origin, event.mark) for event in got] == right.places
    assert report.events == len(got)
    assert report.holes == ()
    assert report.error is None
    if not request.last:
        assert (report.denied, report.duplicates) == (right.denied, right.duplicates)
    for event in got:
        original = world.events[event.origin, event.mark]
        assert event.document == original.document
        assert event.record == original.record
        assert (event.arrival, event.level) == (original.arrival, original.level)


@pytest.mark.parametrize("seed", range(20))
def test_each_request_gets_what_it_is_to_get(seed: int, tmp_path: Path) -> None:
    world = make_world(seed)
    archive = archive_world(world, str(tmp_path / "archive"), seed)
    requests = some_requests(world, seed, 40)
    for request, (report, got) in zip(
        requests, run(archive, requests, tmp_path / "spool"), strict=True
    ):
        compare(world, request, report, got)
