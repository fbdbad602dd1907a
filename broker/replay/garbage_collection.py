"""Python's garbage collector in the processes beside a node, which match and archive."""

from __future__ import annotations

import gc
from typing import Final

#: Both make tuples and events by the thousand, which live for a batch and are in no circle. With
#: the usual thresholds the collector looks at them again and again: a quarter of the time.
_THRESHOLDS: Final = (50_000, 20, 100)


def tune_garbage_collector() -> None:
    """Collect rarely, and never look at what is there now; for the whole process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
