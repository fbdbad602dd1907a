from __future__ import annotations

import pytest

from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.routing.engine import ORACLE, Engine, load_dtds
from benchmarks.routing.one_by_one import OneByOne, check_agreement
from benchmarks.routing.workload import flights
from benchmarks.workloads.mix import HARDER

WORKLOAD = flights(30)
QUERIES = WORKLOAD.queries(200, HARDER)


def test_one_by_one_agrees_with_the_reference_engine() -> None:
    dtds = load_dtds()
    engine = Engine(ORACLE, dtds)
    numbers = engine.subscribe(QUERIES, {})
    found = check_agreement(engine, numbers, QUERIES, {}, WORKLOAD.documents, dtds)
    alone = OneByOne(QUERIES, {}, dtds).match(WORKLOAD.documents)
    assert found == alone.matches == engine.match(WORKLOAD.documents).matches > 10
    assert alone.evaluations == 30 * 200
    assert alone.parsed == 30


def test_an_engine_with_other_matches_ends_the_run() -> None:
    dtds = load_dtds()
    engine = Engine(ORACLE, dtds)
    numbers = engine.subscribe(["/flight", "/flight/nothing"], {})
    with pytest.raises(BenchmarkFailed, match="lxml says True for //flightleg"):
        check_agreement(
            engine, numbers, ["/flight", "//flightleg"], {}, WORKLOAD.documents[:2], dtds
        )


def test_a_query_that_matches_nothing_by_lxml_but_something_by_the_engine_ends_the_run() -> None:
    dtds = load_dtds()
    engine = Engine(ORACLE, dtds)
    numbers = engine.subscribe(["/flight"], {})
    with pytest.raises(BenchmarkFailed, match="lxml says False for /flight/nothing"):
        check_agreement(engine, numbers, ["/flight/nothing"], {}, WORKLOAD.documents[:2], dtds)


def test_the_types_defaults_are_applied_first() -> None:
    dtds = load_dtds()
    alone = OneByOne(["/flight", "/flight/id"], {}, dtds)
    assert list(alone.match_each(WORKLOAD.documents[:1])) == [[0, 1]]
    foreign = WORKLOAD.documents[0].replace(b"DTD flight 1.1", b"DTD flight 9.9")
    with pytest.raises(BenchmarkFailed, match="type of an event is not known"):
        list(alone.match_each([foreign]))
