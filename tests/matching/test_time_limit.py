"""Matching with a time limit gives the same verdicts as without."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from broker.dtd.dtd import Dtd
from broker.event.envelope import Liveness
from broker.event.stream import StreamPattern
from broker.matching.budget import Budget
from broker.matching.contract import Accepted, IMatcher, Refused, Verdict
from broker.matching.document_limits import DocumentLimits
from broker.matching.engine.portion_size import PortionSize
from broker.matching.query.query import parse_query
from broker.matching.switch import Switch
from tests.matching import processor_time
from tests.matching.conftest import ENGINES, KnownDtds, event

#: Some are in no index, and some of those are evaluated on every event.
QUERIES = (
    "//altitude > 300",
    "starts-with(//id, 'UAL1')",
    "//leg[altitude = //leg/speed]",
    "string-length(//id) * 2 = 14",
    "true()",
)
UNDECIDED = "//remark[count(//remark[. > 0])] = 'x' or //remark = 'x'"


class Clock:
    """A clock that advances by nothing, a second or sometimes a hundred at each reading."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.now = 0

    def __call__(self) -> float:
        self.now += self._random.choice((0, 1, 1, 100))
        return self.now


def documents(count: int) -> list[bytes]:
    """Return flights of two shapes, flights that must be parsed, and invalid ones."""
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


def subscribe_all(engine: IMatcher) -> IMatcher:
    for query in QUERIES:
        engine.subscribe(StreamPattern.parse(">"), parse_query(query))
    return engine


def counters(engine: Any) -> tuple[Any, ...]:
    statistics = engine.statistics()
    refused = {name: n for name, n in statistics.items() if name.startswith("refused.")}
    types = [(t.type, t.recognised + t.parsed, t.refused) for t in engine.type_counters()]
    return statistics["accepted"], refused, types


def comparable(verdicts: list[Verdict]) -> list[Any]:
    return [v if isinstance(v, Accepted) else str(v) for v in verdicts]


@pytest.mark.parametrize("name", sorted(ENGINES))
@pytest.mark.parametrize(
    ("seconds", "seed"), [(0.0, 1), (3.0, 1), (30.0, 1), *((300.0, seed) for seed in range(1, 9))]
)
def test_many_limited_calls_match_like_one(
    flight_dtd: Dtd, ticking: Callable[[], float], name: str, seconds: float, seed: int
) -> None:
    all_documents = documents(700)
    whole = subscribe_all(ENGINES[name](KnownDtds(flight_dtd), clock=ticking))
    expected = whole.match(all_documents)
    assert {type(each) for each in expected} == {Accepted, Refused}
    assert {number for v in expected if isinstance(v, Accepted) for number in v.subscriptions} == {
        *range(1, len(QUERIES) + 1)
    }
    engine = subscribe_all(
        ENGINES[name](KnownDtds(flight_dtd), clock=Clock(seed), max_run_time=float("inf"))
    )
    verdicts: list[Verdict] = []
    calls = 0
    while len(verdicts) < len(all_documents):
        answered = engine.match(all_documents[len(verdicts) :], seconds)
        assert answered
        verdicts += answered
        calls += 1
    assert calls > 2
    assert comparable(verdicts) == comparable(expected)
    assert counters(engine) == counters(whole)
    if isinstance(engine, Switch):
        # Documents that were looked up twice count as recognised once.
        hits = sum(each.hits for each in engine._shapes.types.values())
        assert hits == engine.statistics()["recognised"] > 400
    assert engine.take_suspended() == []


def test_time_may_end_at_any_reading_of_the_clock(flight_dtd: Dtd) -> None:
    """A pause of the machine, at each reading of the clock."""
    readings = pause = 0

    def clock() -> float:
        nonlocal readings
        readings += 1
        return readings / 1_000 + (1_000_000 if readings >= pause else 0)

    # Too few alike for a shape, so each is parsed.
    parsed = [each.replace(b"<id>", b"<id>&#49;") for each in documents(70)]
    engine = Switch(KnownDtds(flight_dtd), clock=lambda: 0.0)
    expected = comparable(engine.match(parsed))
    done = set()
    while readings >= pause:
        engine = Switch(KnownDtds(flight_dtd), clock=clock)
        readings, pause = 0, pause + 1
        verdicts = engine.match(parsed, 1_000.0)
        assert verdicts and comparable(verdicts) == expected[: len(verdicts)]
        done.add(len(verdicts))
    assert {1, 63, 64, 65, 70} <= done


@pytest.mark.parametrize("name", sorted(ENGINES))
@pytest.mark.parametrize("seconds", [0.0, 3.0, 300.0])
def test_many_limited_calls_select_like_one(
    flight_dtd: Dtd, ticking: Callable[[], float], name: str, seconds: float
) -> None:
    logged = [each for number, each in enumerate(documents(200)) if number % 31 != 30]
    whole = subscribe_all(ENGINES[name](KnownDtds(flight_dtd), clock=ticking))
    engine = subscribe_all(
        ENGINES[name](KnownDtds(flight_dtd), clock=Clock(2), max_run_time=float("inf"))
    )
    for each in (whole, engine):
        each.match(documents(50))
    for number in range(1, len(QUERIES) + 1):
        expected = whole.select(number, logged, Liveness.RECOVERY)
        selected: list[bool] = []
        calls = 0
        while len(selected) < len(logged):
            rest = logged[len(selected) :]
            some = engine.select(number, rest, Liveness.RECOVERY, seconds)
            assert some
            selected += some
            calls += 1
        assert calls > 1
        assert selected == expected


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_no_document_is_started_after_the_time_limit(
    flight_dtd: Dtd, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After any number of cheap documents, each expensive one may be the last."""
    now = 0.0

    def evaluate_slowly(budget: Budget, *arguments: Any, **named: Any) -> Any:
        nonlocal now
        now += 0.001
        return evaluate(budget, *arguments, **named)

    evaluate = Budget.evaluate_queries
    monkeypatch.setattr(Budget, "evaluate_queries", evaluate_slowly)
    engine = ENGINES[name](KnownDtds(flight_dtd), clock=lambda: now)
    # Cheap documents do not match the pattern; the query is in no index.
    engine.subscribe(StreamPattern.parse("expensive"), parse_query(UNDECIDED))
    payload = b"<flight><id>A</id><leg><altitude>1</altitude><speed>2</speed></leg>"
    payload += b"<remark>x</remark></flight>"
    cheap, expensive = [
        [event(payload, stream=stream, sequence_number=n) for n in range(1, 1_001)]
        for stream in ("cheap", "expensive")
    ]
    for _ in range(3):
        engine.match([*cheap, *expensive])
    before = now
    assert engine.match(cheap, 0.01) == engine.match(cheap)
    assert now == before
    verdicts = engine.match([*cheap[:900], *expensive], 0.0105)
    assert 911 == len(verdicts)
    assert now == pytest.approx(before + 0.011)
    (verdict,) = engine.match(expensive, 0.0)
    assert isinstance(verdict, Accepted) and verdict.subscriptions == (1,)


def test_stride_fits_the_remaining_time() -> None:
    stride = PortionSize()
    assert stride.next_portion(0, 5_000, inf, inf) == range(5_000)
    assert not stride.next_portion(5_000, 5_000, inf, inf)
    # Nothing is known before the first documents.
    assert stride.next_portion(0, 5_000, 0.02, 0.02) == range(64)
    stride.record_time(64, 64 * 0.0001)
    # A quarter of the time is reserved for more expensive ones.
    assert stride.next_portion(64, 5_000, 0.0136, 0.02) == range(64, 64 + 86)
    assert stride.next_portion(64, 100, 0.0136, 0.02) == range(64, 100)
    assert not stride.next_portion(64, 5_000, 0.0065, 0.02)
    # At least some documents are always matched.
    assert stride.next_portion(0, 5_000, 0.0, 0.0) == range(16)
    # No documents, no new measurement.
    stride.record_time(0, 0.5)
    # A single pause is ignored, a repeated one is not.
    stride.record_time(10, 0.1)
    assert len(stride.next_portion(0, 5_000, 0.02, 0.02)) in (99, 100)
    for _ in range(10):
        stride.record_time(10, 0.1)
    assert len(stride.next_portion(0, 5_000, 0.02, 0.02)) == 16
    for _ in range(20):
        stride.record_time(16, 0.00016)
    assert len(stride.next_portion(0, 5_000, 0.02, 0.02)) == 512


@pytest.mark.parametrize("engine_name", sorted(ENGINES))
@pytest.mark.parametrize(
    ("query", "between"),
    [
        ("//processing-instruction()", b"<?a?>"),
        ("(//node())[1]", b"<?a?>"),
        ("not(//comment())", b"<!--x-->"),
        ("//remark/text()", b"x<?a?>"),
    ],
)
def test_nodes_without_elements_between_them_take_no_quadratic_time(
    engine_name: str, query: str, between: bytes, dtds: KnownDtds
) -> None:
    # libxml2 alone takes minutes for some of them.
    engine = ENGINES[engine_name](
        dtds, document_limits=DocumentLimits(max_markup=200_000), clock=time.perf_counter
    )
    number = engine.subscribe(StreamPattern.parse(">"), parse_query(query))
    remark = b"<remark>%s</remark>" % (between * 100_000)
    document = event(b"<flight><id>1</id>%s</flight>" % remark)
    with processor_time.at_most(2):
        (verdict,) = engine.match([document])
    assert isinstance(verdict, Accepted)
    assert verdict.subscriptions == (number,) or engine.take_suspended()
