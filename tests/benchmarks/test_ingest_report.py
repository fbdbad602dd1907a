from __future__ import annotations

import pytest
from rich.console import Console

from benchmarks.harness.flow import Flow
from benchmarks.harness.report import Report, print_report
from benchmarks.ingest_report import FLOOR, Archived, Run, fall, report


def run(seconds: float, *, subscribers: int = 1, on: bool = False, dropped: int = 0) -> Run:
    flow = Flow(1_000, subscribers, seconds, 0.01, 10, 5, 1_000, dropped, 0.01, 0.5)
    archived = Archived(1_000, 400, 0.5, seconds + 0.5, 0.01) if on else None
    return Run(subscribers, flow, 8.0, archived)


def made(*on: float, dropped: int = 0) -> Report:
    runs = []
    for seconds in on:
        runs += [run(1.0), run(seconds, on=True)]
        runs += [run(2.0, subscribers=10), run(2.0, subscribers=10, on=True, dropped=dropped)]
    return report(runs, ["a note"])


def test_the_fall_is_that_of_the_medians() -> None:
    runs = [run(1.0), run(2.0, on=True), run(10.0), run(11.0, on=True), run(1.0), run(1.0, on=True)]
    assert fall(runs, 1) == pytest.approx(0.5)


@pytest.mark.parametrize(("seconds", "held"), [(1.05, True), (0.9, True), (1.2, False)])
def test_the_floor_is_a_tenth(seconds: float, held: bool) -> None:
    one, ten, dropped = made(seconds).floors
    assert one.bound == FLOOR == 0.1
    assert (one.is_met, ten.is_met, dropped.is_met) == (held, True, True)


def test_dropped_events_miss_a_floor() -> None:
    assert not made(1.0, dropped=1).floors[2].is_met


def test_the_tables_tell_both_sides() -> None:
    console = Console(width=200, record=True)
    print_report(made(1.0, 1.25), console, quick=False)
    text = console.export_text()
    assert "1->10, archive on" in text
    rates, archived = made(1.0, 1.0).sheets
    assert [row[0] for row in rates.rows] == [
        *("1->1, archive off", "1->1, archive on", "1->10, archive off", "1->10, archive on"),
    ]
    assert archived.rows[0] == ["1->1, archive on", "667", "10.0", "400", "400", "0.5", "0.5"]


def test_the_figures_carry_every_run() -> None:
    figures = made(1.0).figures
    assert figures["falls"] == {"1": 0.0, "10": 0.0}
    assert [each["archived"] is None for each in figures["runs"]] == [True, False, True, False]
