"""Waiting until nobody else uses the machine: figures of a busy one say little."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from benchmarks.harness.usage import busy_seconds

#: Cores that others may use on a machine that counts as quiet.
QUIET: Final = 0.1
_GLANCE: Final = 1.0


def wait_until_quiet(patience: float, say: Callable[[str], None]) -> float:
    """Wait until the machine is quiet, or for `patience` seconds; the cores in use at the end."""
    deadline = time.monotonic() + patience
    while True:
        busy, own, began = busy_seconds(), sum(os.times()[:2]), time.monotonic()
        time.sleep(_GLANCE)
        ours = sum(os.times()[:2]) - own
        others = max(0.0, busy_seconds() - busy - ours) / (time.monotonic() - began)
        if others <= QUIET or time.monotonic() > deadline:
            return others
        say(f"waiting for a quiet machine: others use {others:.1f} cores")
