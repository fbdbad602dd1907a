from __future__ import annotations

from benchmarks.latency import percentile


def test_a_percentile_is_the_least_figure_that_its_share_does_not_exceed() -> None:
    ordered = [float(number) for number in range(1, 101)]
    assert percentile(ordered, 0.5) == 50
    assert percentile(ordered, 0.99) == 99
    assert percentile(ordered, 0.999) == 100
    assert percentile([7.0], 0.5) == 7
