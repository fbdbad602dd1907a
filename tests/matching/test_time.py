"""A match that is to stop when time is up: what it says until then is what it would have said."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from broker.dtd.dtd import Dtd
from broker.event.envelope import Liveness
from broker.event.stream import StreamPattern
from broker.matching.budget import Budget
from broker.matching.contract import Accepted, IMatcher, Refused, Verdict
from broker.matching.query.query import parse_query
from broker.matching.switch import Switch
from broker.matching.switching.stride import Stride
from tests.matching.conftest import ENGINES, KnownDtds, event

#: Some are in no index, and some of those need to be evaluated on every event.
QUERIES = (
    "//altitude > 300",
    "starts-with(//id, 'UAL1')",
    "//leg[altitude = //leg/speed]",
    "string-length(//id) * 2 = 14",
    "true()",
)
UNDECIDED = "//remark[count(//remark[. > 0])] = 'x' or //remark = 'x'"


class Clock:
    """A look at it takes no time, a second, or now and then a hundred."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.now = 0

    def __call__(self) -> float:
        self.now += self._random.choice((0, 1, 1, 100))
        return self.now


def documents(count: int) -> list[bytes]:
    """Flights of two shapes, flights that have to be parsed, and what is refused."""
    made = []
    for number in range(count):
        leg = f"<leg><altitude>{number}</altitude><speed>{600 - number}</speed></leg>"
        flight = f"<flight><id>UAL{number}</id>{leg * (1 + number % 2)}</flight>"
        if number % 7 == 3:
            flight = flight.replace("<id>", "<id>&#49;")
        if number % 31 == 30:
            flight = flight.replace("flight>", "fright>")
        made.append(event(flight.encode(), sequence_number=number + 1))
    return made


def subscribed(engine: IMatcher) -> IMatcher:
    for query in QUERIES:
        engine.subscribe(StreamPattern.parse(">"), parse_query(query))
    return engine


def counted(engine: Any) -> tuple[Any, ...]:
    statistics = engine.statistics()
    refused = {name: n for name, n in statistics.items() if name.startswith("refused.")}
    types = [(t.type, t.recognised + t.parsed, t.refused) for t in engine.types()]
    return statistics["accepted"], refused, types


def said(verdicts: list[Verdict]) -> list[Any]:
    return [v if isinstance(v, Accepted) else str(v) for v in verdicts]


@pytest.mark.parametrize("name", sorted(ENGINES))
@pytest.mark.parametrize(
    ("seconds", "seed"), [(0.0, 1), (3.0, 1), (30.0, 1), *((300.0, seed) for seed in range(1, 9))]
)
def test_what_is_said_in_many_goes_is_what_is_said_in_one(
    flight_dtd: Dtd, ticking: Callable[[], float], name: str, seconds: float, seed: int
) -> None:
    all_documents = documents(700)
    whole = subscribed(ENGINES[name](KnownDtds(flight_dtd), clock=ticking))
    expected = whole.match(all_documents)
    assert {type(each) for each in expected} == {Accepted, Refused}
    assert {number for v in expected if isinstance(v, Accepted) for number in v.subscriptions} == {
        *range(1, len(QUERIES) + 1)
    }
    engine = subscribed(
        ENGINES[name](KnownDtds(flight_dtd), clock=Clock(seed), max_run_time=float("inf"))
    )
    verdicts: list[Verdict] = []
    goes = 0
    while len(verdicts) < len(all_documents):
        answered = engine.match(all_documents[len(verdicts) :], frozenset(), seconds)
        assert answered
        verdicts += answered
        goes += 1
    assert goes > 2
    assert said(verdicts) == said(expected)
    assert counted(engine) == counted(whole)
    if isinstance(engine, Switch):
        # What was looked at twice was recognised once.
        hits = sum(each.hits for each in engine._shapes.statistics().values())
        assert hits == engine.statistics()["recognised"] > 400
    assert engine.suspended() == []


def test_time_may_be_up_at_any_moment(flight_dtd: Dtd) -> None:
    """A pause of the machine, at each look at the clock that there is."""
    looks = pause = 0

    def clock() -> float:
        nonlocal looks
        looks += 1
        return looks / 1_000 + (1_000_000 if looks >= pause else 0)

    # Too few are alike for a shape, so each of them is looked at by itself.
    parsed = [each.replace(b"<id>", b"<id>&#49;") for each in documents(70)]
    engine = Switch(KnownDtds(flight_dtd), clock=lambda: 0.0)
    expected = said(engine.match(parsed))
    done = set()
    while looks >= pause:
        engine = Switch(KnownDtds(flight_dtd), clock=clock)
        looks, pause = 0, pause + 1
        verdicts = engine.match(parsed, frozenset(), 1_000.0)
        assert verdicts and said(verdicts) == expected[: len(verdicts)]
        done.add(len(verdicts))
    assert {1, 63, 64, 65, 70} <= done


@pytest.mark.parametrize("name", sorted(ENGINES))
@pytest.mark.parametrize("seconds", [0.0, 3.0, 300.0])
def test_what_is_selected_in_many_goes_is_what_is_selected_in_one(
    flight_dtd: Dtd, ticking: Callable[[], float], name: str, seconds: float
) -> None:
    logged = [each for number, each in enumerate(documents(200)) if number % 31 != 30]
    whole = subscribed(ENGINES[name](KnownDtds(flight_dtd), clock=ticking))
    engine = subscribed(
        ENGINES[name](KnownDtds(flight_dtd), clock=Clock(2), max_run_time=float("inf"))
    )
    for each in (whole, engine):
        each.match(documents(50))
    for number in range(1, len(QUERIES) + 1):
        expected = whole.select(number, logged, Liveness.RECOVERY)
        selected: list[bool] = []
        goes = 0
        while len(selected) < len(logged):
            rest = logged[len(selected) :]
            some = engine.select(number, rest, Liveness.RECOVERY, frozenset(), seconds)
            assert some
            selected += some
            goes += 1
        assert goes > 1
        assert selected == expected


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_no_more_is_begun_when_time_is_up(
    flight_dtd: Dtd, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind any number of cheap documents each dear one may be the last."""
    now = 0.0

    def dearly(budget: Budget, *arguments: Any, **named: Any) -> Any:
        nonlocal now
        now += 0.001
        return evaluate(budget, *arguments, **named)

    evaluate = Budget.evaluate
    monkeypatch.setattr(Budget, "evaluate", dearly)
    engine = ENGINES[name](KnownDtds(flight_dtd), clock=lambda: now)
    # Of no concern to cheap documents, and in no index.
    engine.subscribe(StreamPattern.parse("dear"), parse_query(UNDECIDED))
    payload = b"<flight><id>A</id><leg><altitude>1</altitude><speed>2</speed></leg>"
    payload += b"<remark>x</remark></flight>"
    cheap, dear = [
        [event(payload, stream=stream, sequence_number=n) for n in range(1, 1_001)]
        for stream in ("cheap", "dear")
    ]
    for _ in range(3):
        engine.match([*cheap, *dear])
    before = now
    assert engine.match(cheap, frozenset(), 0.01) == engine.match(cheap)
    assert now == before
    verdicts = engine.match([*cheap[:900], *dear], frozenset(), 0.0105)
    assert 911 == len(verdicts)
    assert now == pytest.approx(before + 0.011)
    (verdict,) = engine.match(dear, frozenset(), 0.0)
    assert isinstance(verdict, Accepted) and verdict.subscriptions == (1,)


def test_as_many_are_matched_at_once_as_there_is_time_for() -> None:
    stride = Stride()
    assert stride.next(0, 5_000, inf, inf) == range(5_000)
    assert not stride.next(5_000, 5_000, inf, inf)
    # Of the first ones nothing is known.
    assert stride.next(0, 5_000, 0.02, 0.02) == range(64)
    stride.took(64, 64 * 0.0001)
    # A quarter of the time is for those that turn out dearer.
    assert stride.next(64, 5_000, 0.0136, 0.02) == range(64, 64 + 86)
    assert stride.next(64, 100, 0.0136, 0.02) == range(64, 100)
    assert not stride.next(64, 5_000, 0.0065, 0.02)
    # But something is always done.
    assert stride.next(0, 5_000, 0.0, 0.0) == range(16)
    # Where there was no time for any, nothing is known.
    stride.took(0, 0.5)
    # A pause is not taken for the rule, but what comes again is.
    stride.took(10, 0.1)
    assert len(stride.next(0, 5_000, 0.02, 0.02)) in (99, 100)
    for _ in range(10):
        stride.took(10, 0.1)
    assert len(stride.next(0, 5_000, 0.02, 0.02)) == 16
    for _ in range(20):
        stride.took(16, 0.00016)
    assert len(stride.next(0, 5_000, 0.02, 0.02)) == 512
