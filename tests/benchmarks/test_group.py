from __future__ import annotations

from benchmarks.group import CERTIFICATES, COMPARISON, NOTHING, Run, report
from benchmarks.harness.measured_nodes import Portion


def runs(order: str, extra: str, *costs: float) -> list[Run]:
    signatures = 30 if extra == CERTIFICATES else 0
    portions = [Portion(1_000, 2.0, [cost / 1e3] * 3, 0) for cost in costs]
    return [Run(order, extra, each, signatures) for each in portions]


def test_the_rate_is_the_median_ratio_of_simultaneous_runs() -> None:
    made = report(
        [
            *runs("hybrid", NOTHING, 90, 30, 60),
            *runs("hybrid", CERTIFICATES, 64, 10, 99),
            *runs("hybrid", COMPARISON, 180, 40, 120),
            *runs("sequencer", NOTHING, 90),
            *runs("sequencer", CERTIFICATES, 120),
        ]
    )
    rows = {tuple(row[:2]): row[2:] for row in made.sheets[0].rows}
    assert rows["hybrid", NOTHING] == ("180", "90", "270", "1.000", "0")
    assert rows["hybrid", CERTIFICATES] == ("192", "30", "297", "1.406", "30")
    assert [floor.is_met for floor in made.floors] == [True, False, False]
    assert [floor.value for floor in made.floors] == [90 / 64, 0.5, 0.75]
