from __future__ import annotations

import subprocess
import sys

import pytest

from tests.seeds import seeds

#: Of each kind of damage in one test.
TRIALS = 2


@pytest.mark.parametrize("number", seeds(1, 10))
def test_damaged_log_file_alters_and_loses_no_event_silently(number: int) -> None:
    # Trials fork, so they need a process of their own.
    first = number * (TRIALS + 1)
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.damaged_pages", str(first), str(first + TRIALS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
