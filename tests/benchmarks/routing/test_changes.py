from __future__ import annotations

from benchmarks.routing.changes import Changes, measure_changes, summarise
from benchmarks.routing.engine import ORACLE, Engine, load_dtds
from benchmarks.routing.workload import flights
from benchmarks.workloads.mix import STANDARD


def test_as_many_queries_are_left_as_there_were_before() -> None:
    workload = flights(10)
    texts = workload.queries(60, STANDARD)
    engine = Engine(ORACLE, load_dtds())
    engine.subscribe(texts[:40], {})
    changes = measure_changes("flights", engine, 40, texts[40:], {}, workload.documents)
    assert engine.statistics()["subscriptions"] == 40
    assert len(changes.added) == len(changes.removed) == len(changes.read) == 20
    for alone, with_match in (
        (changes.added, changes.added_with_match),
        (changes.removed, changes.removed_with_match),
    ):
        assert all(0 <= first <= both for first, both in zip(alone, with_match, strict=True))


def test_shares_are_the_median_the_99th_percentile_and_the_most() -> None:
    figures = [float(number) for number in range(1000, 0, -1)]
    assert summarise(figures) == {"median": 500.5, "p99": 990.0, "max": 1000.0}


def test_the_figures_come_as_json() -> None:
    said = Changes("x", 7, [1.0], [2.0], [3.0], [4.0], [5.0]).as_json()
    assert said["milliseconds"]["add one"]["max"] == 2.0
    assert said["milliseconds"]["remove one, and the next match"]["median"] == 5.0
    assert said["reading_milliseconds"]["p99"] == 1.0
