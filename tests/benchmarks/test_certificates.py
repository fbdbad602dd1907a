from __future__ import annotations

from benchmarks.certificates import ORDERS, Run, report


def runs(order: str, *costs: float, is_signed: bool) -> list[Run]:
    signatures = 30 if is_signed else 0
    return [Run(order, is_signed, 1_000, 2.0, [cost / 1e3] * 3, signatures) for cost in costs]


def test_the_rate_is_the_median_ratio_of_neighbouring_runs() -> None:
    made = report(
        [
            *(each for order in ORDERS for each in runs(order, 90, 30, 60, is_signed=False)),
            *(each for order in ORDERS for each in runs(order, 64, 10, 99, is_signed=True)),
        ]
    )
    rows = {tuple(row[:2]): row[2:] for row in made.sheets[0].rows}
    assert rows["hybrid", "no"] == ("180", "90", "270", "1.000", "0")
    assert rows["sequencer", "yes"] == ("192", "30", "297", "1.406", "30")
    assert [floor.is_met for floor in made.floors] == [True, True]
    assert made.floors[0].value == 90 / 64
