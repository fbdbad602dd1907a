"""Runs replay engines and checks their results."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from broker.log.logged_event import LoggedEvent
from broker.replay.engine.contract import Engine, Report
from broker.replay.request import ReplayRequest
from broker.replay.spool import Spool
from tests.recovery.world import World, expected

Answer: TypeAlias = tuple[Report, list[LoggedEvent]]


def answers(engine: Engine, requests: list[ReplayRequest], folder: Path) -> list[Answer]:
    folder.mkdir()
    reports = engine.run(requests, folder, lambda done, of: None, lambda: False)
    spool = Spool(folder)
    return [
        (report, spool.read_events(number, 0, 100_000, 1 << 30))
        for number, report in enumerate(reports)
    ]


def compare(world: World, request: ReplayRequest, answer: Answer) -> None:
    """Check an answer against a scan of all events."""
    report, got = answer
    right = expected(world, request)
    assert [(event.origin, event.mark) for event in got] == right.places
    assert report.events == len(got)
    assert report.missing_ranges == ()
    assert report.error is None
    if not request.last:
        assert (report.denied, report.duplicates) == (right.denied, right.duplicates)
    for event in got:
        original = world.events[event.origin, event.mark]
        assert event.document == original.document
        assert event.record == original.record
        assert (event.arrival, event.level) == (original.arrival, original.level)
