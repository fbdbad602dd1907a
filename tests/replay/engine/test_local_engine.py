"""The pure-Python engine, compared with evaluating each event."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from broker.archive.archive import Archive
from broker.archive.writer import ArchiveWriter
from broker.event.place import Mark
from broker.replay.engine.contract import MissingRange
from broker.replay.engine.local_engine import LocalEngine
from broker.replay.request import ReplayRequest
from tests.recovery.answers import answers, compare
from tests.recovery.test_log_merge import logged
from tests.recovery.world import BEGIN, CATALOGUE, archive_world, make_world, some_requests
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(3, 20))
def test_each_request_gets_its_events(seed: int, tmp_path: Path) -> None:
    world = make_world(seed)
    archive = archive_world(world, str(tmp_path / "archive"), seed)
    requests = some_requests(world, seed, 40)
    engine = LocalEngine(archive, CATALOGUE)
    got = answers(engine, requests, tmp_path / "spool")
    for request, answer in zip(requests, got, strict=True):
        compare(world, request, answer)


@pytest.mark.parametrize(
    ("position", "comes"),
    [
        # It may lack the event of the first epoch.
        ((2, 5), [("a", (2, 7))]),
        # It has all of the first epoch.
        ((1, 4), []),
        # It is before the event.
        ((1, 3), [("a", (1, 4))]),
    ],
)
def test_events_on_another_branch_are_delivered(
    position: Mark, comes: list[tuple[str, Mark]], tmp_path: Path
) -> None:
    """The origin received the fourth event again and logged it a second time."""
    request = ReplayRequest(">", "true()", ranges={"a": (position, None)}, others=False)
    engine = LocalEngine(archive_of_two_branches(tmp_path), CATALOGUE)
    [(_, got)] = answers(engine, [request], tmp_path / "spool")
    assert [(e.origin, e.mark) for e in got if e.mark != (2, 5)] == comes


@pytest.mark.parametrize(
    ("known", "lacks"),
    [
        ({}, []),
        ({"a": (1, 4)}, []),
        ({"a": (2, 5)}, []),
        ({"a": (1, 6)}, [("a", (1, 4), (1, 6))]),
    ],
)
def test_the_known_end_of_a_lost_branch_is_a_missing_range(
    known: dict[str, Mark], lacks: list[MissingRange], tmp_path: Path
) -> None:
    """Lower offsets follow it, so nothing seems to be missing."""
    request = ReplayRequest(">", "true()", ranges={"a": ((1, 1), None)}, others=False, known=known)
    engine = LocalEngine(archive_of_two_branches(tmp_path), CATALOGUE)
    [(report, _)] = answers(engine, [request], tmp_path / "spool")
    assert list(report.missing_ranges) == [*lacks, ("a", (2, 5), (2, 6))]
    assert report.upto == {"a": (2, 7)}


def archive_of_two_branches(folder: Path) -> Archive:
    """Make an archive whose origin `a` was reset to its second event."""
    archive = Archive.open(str(folder / "archive"))
    writer = ArchiveWriter(archive, "a", lambda: BEGIN)
    first = [logged("a", n, BEGIN + n, "p", n) for n in (1, 2, 3, 4)]
    writer.write([("a", (0, 0), (1, 4))], first, {})
    second = [
        attrs.evolve(logged("a", n, BEGIN + n, publisher, number), epoch=2)
        for n, publisher, number in [(5, "q", 1), (7, "p", 4)]
    ]
    writer.write([("a", (2, 2), (2, 5)), ("a", (2, 6), (2, 7))], second, {})
    ArchiveWriter(archive, "b", lambda: BEGIN).write(
        [("b", (0, 0), (1, 1))], [logged("b", 1, BEGIN, "r", 1)], {}
    )
    return archive
