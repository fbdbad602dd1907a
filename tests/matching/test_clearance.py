"""A query is evaluated for nobody who may not read the event, and suspended for nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from broker.dtd.dtd import Dtd
from broker.errors import QueryTooExpensive
from broker.event.envelope import Liveness, SecurityLevel
from broker.event.stream import StreamPattern
from broker.matching.budget import Budget
from broker.matching.contract import Accepted, IMatcher
from broker.matching.query.query import parse_query
from tests.matching.conftest import ENGINES, KnownDtds, event

LOW, MED, HIGH = SecurityLevel
EVERY = StreamPattern.parse(">")
PAYLOAD = (
    b"<flight><id>A</id><leg><altitude>1</altitude><speed>2</speed></leg>"
    b"<remark>x</remark></flight>"
)
UNDECIDED = "//remark[count(//remark[. > 0])] = 'x' or //remark = 'x'"


def subscribe(engine: IMatcher, query: str, *clearances: SecurityLevel) -> tuple[int, ...]:
    return tuple(
        engine.subscribe(EVERY, parse_query(query), f"{each}", each.rank) for each in clearances
    )


def matches(engine: IMatcher, *documents: bytes) -> list[tuple[int, ...]]:
    verdicts = engine.match(documents)
    assert all(isinstance(each, Accepted) for each in verdicts)
    return [each.subscriptions for each in verdicts if isinstance(each, Accepted)]


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("query", ["true()", "//altitude = 1", UNDECIDED])
@pytest.mark.parametrize("count", [1, 3, 40])
def test_events_match_up_to_the_clearance(
    flight_dtd: Dtd, name: str, query: str, count: int
) -> None:
    engine = ENGINES[name](KnownDtds(flight_dtd), clock=lambda: 0.0)
    numbers = subscribe(engine, query, LOW, MED, HIGH)
    documents = {level: event(PAYLOAD, security_level=level) for level in SecurityLevel}
    for _ in range(2):
        for level in SecurityLevel:
            expected = numbers[level.rank :]
            assert matches(engine, *[documents[level]] * count) == [expected] * count
        mixed = [documents[LOW], documents[HIGH], documents[LOW], documents[MED]]
        assert matches(engine, *mixed) == [numbers, numbers[2:], numbers, numbers[1:]]
        for number, clearance in zip(numbers, SecurityLevel, strict=True):
            selected = engine.select(number, list(documents.values()), Liveness.RECOVERY)
            assert selected == [level <= clearance for level in documents]


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("live", [True, False])
def test_a_too_expensive_event_suspends_only_those_who_may_read_it(
    flight_dtd: Dtd, name: str, live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = Budget.evaluate_queries
    payers: list[int] = []

    def evaluate_slowly(
        budget: Budget, queries: Any, parsed: Any, document: bytes, subscriptions: Any
    ) -> Any:
        if parsed.header.security_level is not HIGH:
            return evaluate(budget, queries, parsed, document, subscriptions)
        payers.extend(number for query in queries for number in subscriptions(query))
        return [], [(query, QueryTooExpensive("too slow")) for query in queries]

    monkeypatch.setattr(Budget, "evaluate_queries", evaluate_slowly)
    engine = ENGINES[name](KnownDtds(flight_dtd), clock=lambda: 0.0)
    low, high, other = subscribe(engine, UNDECIDED, LOW, HIGH, LOW)
    secret, public = event(PAYLOAD, security_level=HIGH), event(PAYLOAD, security_level=LOW)
    assert matches(engine, public) == [(low, high, other)]
    if live:
        assert matches(engine, secret, public) == [(), (low, other)]
    else:
        assert engine.select(low, [secret], Liveness.RECOVERY) == [False]
        assert engine.take_suspended() == []
        assert engine.select(high, [secret, public], Liveness.RECOVERY) == [False, False]
    assert [number for number, _ in engine.take_suspended()] == [high]
    assert set(payers) <= {high}
    assert matches(engine, public) == [(low, other)]
    assert engine.select(high, [public], Liveness.RECOVERY) == [False]
    for number in (high, low):
        engine.unsubscribe(number)
    assert matches(engine, public) == [(other,)]
    (again,) = subscribe(engine, UNDECIDED, HIGH)
    assert matches(engine, public) == [(other, again)]
    for number in (other, again):
        engine.unsubscribe(number)
    assert engine.statistics()["distinct_queries"] == 0
