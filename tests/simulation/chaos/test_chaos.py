"""Chaos runs, each in a process of its own, so that sets have the same order each time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.seeds import further_cases

ROOT = Path(__file__).parents[3]
#: A lost disk loses nothing.
COPIED = ("--archived", "--guarded", "--disks", "--moving")
TORN = (*COPIED, "--torn")
SHORT_LOGS = ("--archived", "--short", "--moving", "--clocks")
BUSY = (*COPIED, "--busy", "--wandering", "--joining")
MESH = ("--mesh", "--joining", "--clocks")


def run(first: int, last: int, *dangers: str) -> None:
    command = [sys.executable, "-m", "tests.simulation.chaos", f"{first}", f"{last}"]
    done = subprocess.run(
        [*command, *dangers], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == f"{last + 1 - first} runs, 0 failed\n"


@pytest.mark.parametrize(
    ("first", "last", "dangers"),
    [(8, 8, SHORT_LOGS), (40, 40, BUSY), (4, 4, ("--mesh",)), *further_cases((4, 4, TORN))],
)
def test_guarantees_hold_in_a_chaos_run(first: int, last: int, dangers: tuple[str, ...]) -> None:
    run(first, last, *dangers)


@pytest.mark.soak
@pytest.mark.parametrize(
    "dangers", [COPIED, TORN, SHORT_LOGS, BUSY, MESH, ("--guarded", "--clocks"), ()]
)
def test_guarantees_hold_in_many_chaos_runs(dangers: tuple[str, ...]) -> None:
    run(0, 11, *dangers)
    run(30, 43, *dangers)
    run(100, 107, *dangers)
