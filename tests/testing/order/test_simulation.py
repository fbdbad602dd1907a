"""A seed gives one run, in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import hashlib, sys
from broker.testing.order.simulation import Simulation
from broker.transport.order import VARIANTS

run = Simulation(VARIANTS[sys.argv[1]], 7).execute()
record = repr((sorted(run.deliveries.items()), run.statuses, list(run.sent)))
print(hashlib.sha256(record.encode()).hexdigest())
"""


@pytest.mark.parametrize("variant", ["sequencer", "hybrid"])
def test_a_seed_gives_the_same_run_for_all_hashes_of_strings(variant: str) -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, variant],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1
