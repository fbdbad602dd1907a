"""A limit for the processor time of a test, relative to the machine's speed."""

from __future__ import annotations

import gc
import mmap
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: Numbers that the calibration writes, and its seconds on the reference machine.
NUMBERS, SECONDS = 100_000, 0.015
#: Fresh memory that it touches, and its seconds where the numbers take as long as above.
FRESH_BYTES, FRESH_SECONDS = 16 << 20, 0.009
SAMPLES = 4


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Assert that the block takes at most `seconds` of the reference machine's processor time.

    A slower or busy machine gets proportionally more. Garbage collections do not count, as they
    depend on the other tests of the process.
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
    """Return the slowest of a few measurements: the speed of a shared processor varies."""
    return max(_measure_once() for _ in range(SAMPLES))


def _measure_once() -> float:
    before = time.process_time()
    for number in range(NUMBERS):
        str(number)
    computed = time.process_time()
    # Long texts are in fresh memory, which some virtual machines give slowly.
    with mmap.mmap(-1, FRESH_BYTES) as fresh:
        for page in range(0, FRESH_BYTES, mmap.PAGESIZE):
            fresh[page] = 1
    allocated = time.process_time()
    return max((computed - before) / SECONDS, (allocated - computed) / FRESH_SECONDS)
