from __future__ import annotations

from benchmarks.jetstream_report import Round, report


def made(engine: str, ours: float, theirs: float) -> Round:
    return Round(engine, 1, ours, 0.1, 1, 0.5, theirs, 0.1, 3.0, 1.0)


def test_the_floor_is_for_the_median_of_ratios_of_each_engine() -> None:
    rounds = [made("local", 10, 10), made("local", 19, 10), made("local", 90, 10)]
    said = report(1000, [*rounds, made("spark", 21, 10)], "2.9.10", (5_000_000, 9_000_000))
    assert [(floor.value, floor.held) for floor in said.floors] == [(1.9, True), (2.1, False)]
    assert [row[-1] for row in said.sheets[0].rows] == ["1.00", "1.90", "9.00", "2.10"]
