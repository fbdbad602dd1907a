from __future__ import annotations

import pytest

from benchmarks.meshes.forwarding import Forwarding, find_median, findings, make_sheet


def test_the_median_run_counts() -> None:
    runs = [Forwarding(10_000, 10, seconds, 0.5, 0) for seconds in (2.0, 1.0, 4.0)]
    assert find_median(runs).rate == 5_000
    wall, cpu = findings(runs)
    # 262 bytes to ten children.
    assert wall.value == pytest.approx(5_000 * 10 * 262 * 8 / 1e6)
    assert wall.verdict == "MISSED"
    assert cpu.value == pytest.approx(4 * wall.value)
    assert cpu.verdict == ""
    assert make_sheet(runs).rows[1][2:7] == ("10,000", "100,000", "210", "50.0", "0.50")
