"""Where a subscription begins in its node's log."""

from __future__ import annotations

from typing import Any, cast

from broker.router.beginning import serial_behind
from broker.store.commit import Bounds
from broker.store.coverage import Coverage


class Writing:
    """The first event of its own origin is written, at serial 5, and not announced yet."""

    coverage = Coverage({"far": (1, 9)})
    bounds = Bounds(2, 1, 4, 0)

    def first_after(self, origin: str, mark: tuple[int, int]) -> int:
        return 6


def test_what_is_written_and_not_yet_announced_is_read() -> None:
    log = cast(Any, Writing())
    assert serial_behind(log, {"far": (1, 9), "own": (1, 0)}) == 5
