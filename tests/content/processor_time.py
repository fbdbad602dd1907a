"""How long a test may keep the processor busy."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """What is done here takes no longer: but for garbage collections, which go through whatever
    all other tests have left in the process."""
    gc.disable()
    try:
        before = time.process_time()
        yield
        assert time.process_time() - before < seconds
    finally:
        gc.enable()
