"""How long a test may keep the processor busy."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: Numbers that the yardstick writes, and the seconds that this takes where limits are stated for.
NUMBERS, SECONDS = 100_000, 0.015


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """What is done here takes no longer, where the yardstick takes its time. Beside other machines
    on the same processor it may take as much longer as the yardstick does.

    Garbage collections do not count: they go through whatever all other tests have left in the
    process.
    """
    gc.disable()
    try:
        slow = _slowness()
        before = time.process_time()
        yield
        took = time.process_time() - before
        slow = max(1.0, slow, _slowness())
        assert took < seconds * slow, f"{took:.3f} s on a machine {slow:.1f} times as slow"
    finally:
        gc.enable()


def _slowness() -> float:
    before = time.process_time()
    for number in range(NUMBERS):
        str(number)
    return (time.process_time() - before) / SECONDS
