"""Some runs of chaos, each in a process of its own, where sets have the same order each time;
`python -m tests.simulation.chaos` makes as many as there is time for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
#: Nothing is lost with a disk.
SAFE = ("--archived", "--guarded", "--disks", "--moving")
#: Nor with objects of the archive.
TORN = (*SAFE, "--torn")
#: Nor where retention is quick.
SHORT = ("--archived", "--short", "--moving", "--clocks")
#: Nor while all are busy, and come and go.
RESTLESS = (*SAFE, "--busy", "--wandering", "--joining")


def run(first: int, last: int, *dangers: str) -> None:
    command = [sys.executable, "-m", "tests.simulation.chaos", f"{first}", f"{last}"]
    done = subprocess.run(
        [*command, *dangers], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == f"{last + 1 - first} runs, 0 failed\n"


@pytest.mark.parametrize(
    ("first", "last", "dangers"),
    [(0, 0, SAFE), (4, 4, TORN), (8, 8, SHORT), (40, 40, RESTLESS)],
)
def test_everybody_has_in_the_end_what_it_is_to_have(
    first: int, last: int, dangers: tuple[str, ...]
) -> None:
    run(first, last, *dangers)


@pytest.mark.soak
@pytest.mark.parametrize("dangers", [SAFE, TORN, SHORT, RESTLESS, ("--guarded", "--clocks"), ()])
def test_much_chaos(dangers: tuple[str, ...]) -> None:
    run(0, 11, *dangers)
    run(30, 43, *dangers)
    run(100, 107, *dangers)
