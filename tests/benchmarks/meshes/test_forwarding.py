from __future__ import annotations

import pytest

from benchmarks.meshes.forwarding import (
    DISTINCT,
    EVERY_EVENT,
    PAPER,
    Forwarding,
    count_copies,
    find_median,
    findings,
    make_sheet,
    queries_of,
)


def test_the_median_run_of_ten_children_counts() -> None:
    runs = [
        Forwarding(PAPER, 10, 10_000, 60_000, 1_000.0, seconds, 0.5, 0)
        for seconds in (2.0, 1.0, 4.0)
    ]
    runs.append(Forwarding(PAPER, 1, 10_000, 10_000, 1_000.0, 0.1, 0.1, 0))
    runs.append(Forwarding(EVERY_EVENT, 10, 10_000, 100_000, 1_000.0, 0.1, 0.1, 0))
    assert find_median(runs).rate == 5_000
    wall, copies, cpu = findings(runs)
    assert wall.value == pytest.approx(30_000 * 1_000 * 8 / 1e6)
    assert wall.verdict == "PASS"
    assert copies.value == 30_000
    assert cpu.value == pytest.approx(4 * wall.value)
    assert cpu.verdict == ""
    assert make_sheet(runs).rows[1][3:8] == ("10,000", "60,000", "480", "50.0", "0.50")


def test_each_child_has_its_queries_and_gets_their_events() -> None:
    assert count_copies(queries_of(EVERY_EVENT, 3), range(1, 101)) == 300
    paper = queries_of(PAPER, 5)
    assert paper[0] == paper[4] != paper[1]
    distinct = queries_of(DISTINCT, 10)
    assert len({text for texts in distinct for text in texts}) == 1_000
    # An event goes to a child once, however many of its queries it matches.
    assert 0 < count_copies(distinct, range(1, 1_001)) < 10_000
