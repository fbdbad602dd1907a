from __future__ import annotations

from typing import Any

import attrs

from benchmarks.content import FULL
from benchmarks.content_report import bytes_of_a_query, report
from benchmarks.routing.changes import Changes
from benchmarks.routing.findings import Findings, OneByOneCost, query_label
from benchmarks.routing.rounds import BARE, Cost

HELD: dict[str, Any] = {
    "queries": 1000,
    "events": 5,
    "before": 1_000_000,
    "with_queries": 2_000_000,
    "after_all_shapes": 2_900_000,
    "match_milliseconds": {"median": 1.0, "p99": 2.0, "max": 3.0},
}


def cost(workload: str, label: str, ratio: float, queries: int | None = None) -> Cost:
    return Cost(workload, label, queries, [10 * ratio], [ratio], 100, 50, 10, 7)


def findings(ratio: float = 1.4, many: float = 5.0, alone: float = 900.0) -> Findings:
    found = Findings(FULL)
    for workload in ("flights", "VOEvents"):
        found.sizes[workload] = 1000.0
        compared = cost(workload, query_label(10_000), ratio, 10_000)
        found.costs += [
            cost(workload, BARE.label, 1.0),
            compared,
            cost(workload, query_label(100_000), many, 100_000),
        ]
        found.one_by_one.append(
            OneByOneCost(compared, cost(workload, "one by one", ratio * alone, 10_000))
        )
        figures = [0.2] * 99 + [5.0]
        found.changes.append(Changes(workload, 100_000, figures, *[figures] * 4))
    found.memory_report = HELD
    return found


def verdicts(found: Findings) -> dict[str, bool]:
    return {floor.what: floor.is_met for floor in report(found).floors}


def test_there_is_a_floor_for_each_promise_and_all_can_be_held() -> None:
    found = verdicts(findings())
    assert len(found) == 2 * (1 + 1 + 1 + 4) + 1
    assert all(found.values())


def test_a_cost_above_its_bound_misses_the_floor() -> None:
    found = verdicts(findings(ratio=1.6, many=6.5, alone=400.0))
    missed = {what for what, held in found.items() if not held}
    assert missed == {
        *(f"{workload}, 10,000 queries, an event" for workload in ("flights", "VOEvents")),
        *(f"{workload}, 100,000 queries, an event" for workload in ("flights", "VOEvents")),
        *(f"{workload}, 10,000 queries, below one by one" for workload in ("flights", "VOEvents")),
    }


def test_the_memory_of_a_query_counts_from_before_the_first() -> None:
    assert bytes_of_a_query(HELD) == 1900.0
    heavy = attrs.evolve(findings(), memory_report={**HELD, "after_all_shapes": 3_100_000})
    assert not verdicts(heavy)["VOEvents, memory of one of 1,000 queries"]


def test_nitf_is_reported_without_a_bound_and_what_is_missing_is_named() -> None:
    found = findings()
    found.sizes["NITF"] = 3000.0
    found.costs.append(cost("NITF", query_label(10_000), 90.0, 10_000))
    found.missing.append("no data")
    said = report(found)
    assert not any("NITF" in floor.what for floor in said.floors)
    assert any(row[0] == "NITF" for row in said.sheets[0].rows)
    assert said.notes[-1] == "left out: no data"
