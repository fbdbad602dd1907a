from __future__ import annotations

import pytest

from benchmarks.memory import slope


def test_the_slope_is_bytes_an_event() -> None:
    assert slope([(10, 100.0), (20, 180.0), (30, 260.0)]) == pytest.approx(8.0)
