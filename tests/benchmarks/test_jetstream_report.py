from __future__ import annotations

from benchmarks.jetstream_report import Round, Turn, report

KEPT = {"archive": 5_000_000, "documents": 9_000_000, "payloads": 3_000_000}


def made(engine: str, ours: float, documents: float, payloads: float) -> Round:
    turns = [Turn(seconds, 0.1, 3.0, 1.0) for seconds in (documents, payloads)]
    return Round(engine, 1, ours, 0.1, 1, 0.5, *turns)


def test_floors_are_for_the_medians_of_ratios_of_each_engine_to_both_streams() -> None:
    rounds = [made("local", ours, 20, 10) for ours in (10, 19, 90)]
    said = report(1000, [*rounds, made("spark", 21, 20, 10)], "2.9.10", KEPT)
    assert [(floor.value, floor.is_met) for floor in said.floors] == [
        *((0.95, True), (1.9, True)),
        *((1.05, True), (2.1, False)),
    ]
    assert [row[-1] for row in said.sheets[0].rows] == ["1.00", "1.90", "9.00", "2.10"]
    assert [row[2:4] for row in said.sheets[1].rows[:2]] == [
        ["documents", "20.00"],
        ["payloads", "10.00"],
    ]
