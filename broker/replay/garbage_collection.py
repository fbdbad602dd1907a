"""Garbage collection in child processes that match and archive."""

from __future__ import annotations

import gc
from typing import Final

#: Batches allocate thousands of objects without cycles. The defaults take a quarter of the time.
_THRESHOLDS: Final = (50_000, 20, 100)


def tune_garbage_collector() -> None:
    """Make collections rare, and exempt all objects that exist now."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
