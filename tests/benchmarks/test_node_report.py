from __future__ import annotations

from benchmarks.harness.flow import Flow
from benchmarks.harness.work import ExtraQueries, Work
from benchmarks.node_report import ACTIVEMQ, CLIENT, EXTRA_QUERIES, PREBUILT, report


def work(name: str, subscribers: int, events_a_second: float, further: int = 0) -> Work:
    flow = Flow(
        events=1000,
        subscribers=subscribers,
        seconds=1000 / events_a_second,
        cpu=0.01,
        resident=1,
        anonymous=1,
        acknowledged=1000,
        dropped=0,
        actors_cpu=0.01,
        others=0.0,
    )
    beside = ExtraQueries(further, 1000, 20) if further else None
    return Work(name, subscribers, [flow] * 3, [8.0] * 3, extra_queries=beside)


def works(one: float, ten: float, activemq: float | None) -> list[Work]:
    found = [
        work(name, subscribers, rate, further)
        for name in (PREBUILT, CLIENT)
        for subscribers, rate in ((1, one), (10, ten))
        for further in (0, EXTRA_QUERIES)
    ]
    if activemq is not None:
        found.append(work(ACTIVEMQ, 1, activemq, EXTRA_QUERIES))
    return found


def verdicts(found: list[Work]) -> list[bool]:
    return [floor.is_met for floor in report(found, []).floors]


def test_the_floors_are_for_the_runs_with_queries_loaded() -> None:
    said = report(works(45_000, 16_000, 44), [])
    assert [floor.what for floor in said.floors[:2]] == [
        "node, prebuilt 1->1, 1,000 queries",
        "node, prebuilt 1->10, 1,000 queries",
    ]
    assert verdicts(works(45_000, 16_000, 44)) == [True] * 4
    assert verdicts(works(39_000, 14_000, 100)) == [False, False, False, True]


def test_the_rate_is_compared_with_activemqs_for_the_same_queries() -> None:
    said = report(works(45_000, 16_000, 90), [])
    assert round(said.figures["times_activemq"]) == 500
    assert [floor.bound for floor in said.floors] == [40_000, 150_000, 500, 1]


def test_without_the_peer_its_floor_is_left_out() -> None:
    said = report(works(45_000, 16_000, None), [])
    assert said.figures["times_activemq"] is None
    assert [floor.bound for floor in said.floors] == [40_000, 150_000, 1]


def test_deliveries_of_the_extra_queries_are_reported() -> None:
    said = report(works(45_000, 16_000, 44), [])
    besides = said.sheets[2]
    assert len(besides.rows) == 5
    assert besides.rows[0][4] == "20"
    assert said.figures["works"][1]["beside"]["delivered"] == 20
