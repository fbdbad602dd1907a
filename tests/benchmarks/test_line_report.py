from __future__ import annotations

import importlib

from rich.console import Console

from benchmarks.harness.report import Report, print_report
from benchmarks.line_report import (
    ALONE,
    ALONE_FLAT_OUT,
    COMPRESSED,
    EVERY_HOP,
    INGRESS,
    KEPT,
    LINES,
    MIDDLE,
    PLAIN,
    PLAIN_FLAT_OUT,
    SELECTIVE,
    TWO,
    Crossing,
    report,
)
from tests.capability import need


def crossing(work: str, *microseconds: float, dropped: int = 0) -> Crossing:
    return Crossing(
        work=work,
        events=1_000,
        seconds=0.1,
        cpu=[each / 1e3 for each in microseconds],
        frames=0 if work == MIDDLE else 2,
        link_bytes=1_000_000,
        full=1,
        pages=2,
        dropped=dropped,
        others=0.0,
        parse=8.0,
    )


def said(*transit: float, ingress: float = 20.0, dropped: int = 0) -> Report:
    """Return a report with one round for each cost."""
    crossings = []
    for cost in transit:
        crossings += [crossing(INGRESS, ingress), crossing(ALONE, 25.0)]
        crossings += [crossing(ALONE_FLAT_OUT, 25.0), crossing(PLAIN_FLAT_OUT, 30.0, cost, 40.0)]
        crossings += [crossing(MIDDLE, 0.1, 30.0, 0.1)]
        crossings += [crossing(name, 30.0, cost, 40.0) for name in (PLAIN, COMPRESSED, TWO)]
        crossings += [crossing(name, 30.0, cost, 40.0) for name in (SELECTIVE, EVERY_HOP, KEPT)]
    crossings[-1] = crossing(KEPT, 30.0, transit[-1], 40.0, dropped=dropped)
    return report(crossings, [])


def test_transit_is_measured_in_what_ingress_costs_in_the_same_round() -> None:
    told = said(2.0, 12.0, 4.0)
    assert told.figures["transit_to_ingress"] == dict.fromkeys(LINES, 0.2)
    assert [floor.is_met for floor in told.floors] == [True, True]
    assert not said(11.0).floors[0].is_met


def test_events_lost_by_subscribers_miss_a_floor() -> None:
    assert [floor.is_met for floor in said(2.0, dropped=1).floors] == [True, False]


def test_the_price_of_a_network_is_that_of_the_same_work_alone() -> None:
    told = said(2.0)
    assert told.figures["network_to_alone"] == 1.2
    assert "uses 1.20 times" in told.notes[-1]


def test_every_work_has_a_row_in_both_tables_and_a_bar() -> None:
    told = said(2.0, 3.0)
    costs, runner = told.sheets
    assert [row[0] for row in costs.rows] == [row[0] for row in runner.rows]
    by_name = {row[0]: row for row in costs.rows}
    assert {name for name, row in by_name.items() if row[-1] == "0.12"} == set(LINES)
    assert by_name[PLAIN][3:6] == ["30.0", "2.5", "40.0"]
    assert by_name[INGRESS][3:] == ["20.0", "", "", ""]
    # Without other interests no frame begins.
    assert {row[0]: row[2] for row in runner.rows}[MIDDLE] == ""
    need("matplotlib")
    figure = importlib.import_module("matplotlib.figure").Figure()
    told.draw(figure)
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == [*"abc"]
    print_report(told, Console(quiet=True), quick=False)
