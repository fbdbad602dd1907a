"""Wait until other processes do not use the machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from benchmarks.harness.usage import busy_seconds

#: Used by others on an idle machine.
MAX_OTHER_CORES: Final = 0.1
_GLANCE: Final = 1.0


def wait_until_idle(patience: float, say: Callable[[str], None]) -> float:
    """Return the cores in use at the end."""
    deadline = time.monotonic() + patience
    while True:
        busy, own, began = busy_seconds(), sum(os.times()[:2]), time.monotonic()
        time.sleep(_GLANCE)
        ours = sum(os.times()[:2]) - own
        others = max(0.0, busy_seconds() - busy - ours) / (time.monotonic() - began)
        if others <= MAX_OTHER_CORES or time.monotonic() > deadline:
            return others
        say(f"waiting for an idle machine: others use {others:.1f} cores")
