"""Damage anywhere in the log's file: each event comes as it was published, or a gap does."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.seeds import seeds

#: Of each kind of damage in one test.
TRIALS = 2


@pytest.mark.parametrize("number", seeds(1, 10))
def test_no_damage_of_the_file_alters_or_loses_events_in_silence(number: int) -> None:
    # A process, for trials fork: it takes seconds, as 18 nodes are started on damaged logs.
    first = number * (TRIALS + 1)
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.damaged_pages", str(first), str(first + TRIALS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
