"""Real processes on a real disk, killed or running together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from broker.archive.archive import Archive
from broker.archive.table import batch_to_events
from broker.archive.verification import Verification
from tests.archive.archive_process import EVENTS, events_of
from tests.archive.events import everything_in, once, same
from tests.seeds import seeds

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[3]


def started(folder: Path, part: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.archive.archive_process", str(folder), part],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def check(folder: Path, *origins: str) -> None:
    archive = Archive.open(str(folder))
    assert Verification(archive).run().faults == []
    expected = [each for origin in origins for each in events_of(origin)]
    assert same(once(everything_in(archive)), expected)
    whole = dict.fromkeys(origins, (((1, 0), (1, EVENTS)),))
    assert archive.state().covered == whole


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_a_writer_that_is_killed_repeatedly_loses_nothing(tmp_path: Path, seed: int) -> None:
    random, reported, kills = Random(seed), 0, 0
    while reported < EVENTS:
        with started(tmp_path, "aa") as writer:
            for _ in range(random.randrange(2, 25)):
                line = line_of(writer)
                if not line:
                    break
                assert int(line) >= reported
                reported = int(line)
            writer.kill()
            kills += 1
    assert kills > 2
    check(tmp_path, "aa")


def read_what_is_covered(archive: Archive) -> dict[str, int]:
    """AssertionError unless all of the coverage is readable."""
    with archive.open_reader_lease():
        state = archive.state()
        places = {
            each.place
            for file in state.files.values()
            for batch in archive.read(file, checked=True)
            for each in batch_to_events(batch)
        }
        upto = {origin: state.covered_upto(origin, (1, 0))[1] for origin in state.covered}
    for origin, done in upto.items():
        assert {each.place for each in events_of(origin)[:done]} <= places
    return upto


def test_two_writers_a_compactor_and_a_reader_share_an_archive(tmp_path: Path) -> None:
    archive = Archive.open(str(tmp_path))
    with started(tmp_path, "care") as care:
        with started(tmp_path, "aa") as one, started(tmp_path, "bb") as other:
            read: dict[str, int] = {}
            rounds = 0
            while read != {"aa": EVENTS, "bb": EVENTS}:
                before, read = read, read_what_is_covered(archive)
                assert all(read[origin] >= done for origin, done in before.items())
                rounds += 1
            assert (one.wait(), other.wait()) == (0, 0)
        assert line_of(care)
        care.communicate("")
        assert care.returncode == 0
    assert rounds > 3
    assert len(archive.state().files) < 2 * EVENTS // 15
    check(tmp_path, "aa", "bb")
