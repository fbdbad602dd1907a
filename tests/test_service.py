"""The node's process as the service sets it up."""

from __future__ import annotations

import gc
import weakref

from broker.service import GC_THRESHOLDS, collect_rarely


class Knot:
    """Holds itself."""

    def __init__(self) -> None:
        self.me = self


def test_the_collector_leaves_alone_what_is_loaded_and_still_frees_what_comes() -> None:
    thresholds = gc.get_threshold()
    try:
        collect_rarely()
        assert gc.get_threshold() == GC_THRESHOLDS
        assert gc.get_freeze_count() > 10_000
        knot = weakref.ref(Knot())
        assert knot() is not None
        gc.collect()
        assert knot() is None
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
