"""The shared time of one client's queries, on events of which only the size matters."""

from __future__ import annotations

from functools import cached_property
from typing import cast

import attrs
import pytest

from broker.dtd.dtd import Dtd
from broker.event.stream import StreamPattern
from broker.matching.budget import Budget
from broker.matching.client_time_share import (
    FREE_SECONDS,
    FREE_SECONDS_WITHOUT_INDEX,
    ClientTimeShares,
)
from broker.matching.contract import Accepted, IMatcher
from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import Query, parse_query
from broker.matching.query.worst_case import WorstCaseCosts, WorstCost
from broker.matching.query_bounds import QueryBounds
from broker.matching.switch import Switch
from broker.matching.xpath_evaluation import CompiledXPath, ParsedEvent
from tests.matching.conftest import ENGINES, KnownDtds, event


class TimedQuery:
    """A query that takes a fixed time on a clock of its own."""

    def __init__(self, text: str, seconds: float, clock: Clock) -> None:
        self.query: Query = parse_query(text)
        self._seconds = seconds
        self.clock = clock
        self.pause = 0.0
        """Seconds added to the next evaluation only."""

    def matches(self, subject: ParsedEvent) -> bool:
        self.clock.now += self._seconds + self.pause
        self.pause = 0.0
        return True


@attrs.define(eq=False, slots=False)
class PreparedQuery:
    is_always_true = False

    timed: TimedQuery
    numbers: tuple[int, ...] = ()

    @property
    def query(self) -> Query:
        return self.timed.query

    @property
    def compiled(self) -> CompiledXPath:
        return cast(CompiledXPath, self.timed)

    def worst_cost(self, nodes: int) -> WorstCost:
        return self._worst_cases.cost_on(nodes)

    @cached_property
    def _worst_cases(self) -> WorstCaseCosts:
        return WorstCaseCosts(self.query.expression)


class LargePreparedQuery(PreparedQuery):
    """A query whose worst case counts an event's nodes, not its bytes."""

    def worst_cost(self, nodes: int) -> WorstCost:
        return super().worst_cost(2_048)


class SlowlyBoundQuery(PreparedQuery):
    """A query whose worst case takes time, at first."""

    seconds = 0.004

    def worst_cost(self, nodes: int) -> WorstCost:
        self.timed.clock.now += self.seconds
        self.seconds = 0.0
        return super().worst_cost(nodes)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Payload:
    """An event with only a size."""

    depth = 4
    is_shallow = True

    def count_nodes(self, *, envelope: bool) -> int:
        return 2_000


class Evaluator:
    """Queries of some clients, and the evaluation of events with them."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.accounts = ClientTimeShares(self.clock, 0.05, 0.1)
        self._budget = Budget(QueryBounds(QueryLimits(), self.clock, 0.05), self.accounts)
        self.queries: list[PreparedQuery] = []
        self.suspended: list[PreparedQuery] = []
        self.messages: list[str] = []
        self._last = 0

    def add(self, text: str, seconds: float, *clients: str) -> PreparedQuery:
        numbers = range(self._last + 1, self._last + len(clients) + 1)
        for number, client in zip(numbers, clients, strict=True):
            self.accounts.add_subscription(number, client)
        self._last += len(clients)
        query = PreparedQuery(TimedQuery(text, seconds, self.clock), tuple(numbers))
        self.queries.append(query)
        return query

    def expensive(self, count: int, seconds: float, *clients: str) -> list[PreparedQuery]:
        """Add queries whose worst case is quadratic in the event."""
        texts = [f"//a[../@x = {n} and ../@y = {n}]" for n in range(count)]
        return [self.add(text, seconds, *clients) for text in texts]

    def moderate(self, count: int, seconds: float, *clients: str) -> list[PreparedQuery]:
        return [self.add(f"//a[../@x = {n}]", seconds, *clients) for n in range(count)]

    def cheap(self, count: int, seconds: float, *clients: str) -> list[PreparedQuery]:
        return [self.add(f"//a[@x = {n}]", seconds, *clients) for n in range(count)]

    def event(self, *, bytes_: int = 8_000, free: float = FREE_SECONDS) -> float:
        """Evaluate an event and return the seconds that it took."""
        before = self.clock.now
        document = b"<a/>" * 2_000 + b" " * (bytes_ - 8_000)
        self.accounts.begin_event(free)
        matching, broken = self._budget.evaluate_queries(
            self.queries, cast(ParsedEvent, Payload()), document, lambda each: each.numbers
        )
        assert matching == [q for q in self.queries if q not in [each for each, _ in broken]]
        self.suspended += [query for query, _ in broken]
        self.messages += [error.text for _, error in broken]
        self.queries = matching
        return self.clock.now - before


@pytest.fixture
def evaluator() -> Evaluator:
    return Evaluator()


def test_expensive_queries_share_a_clients_time_after_its_cheap_ones(
    evaluator: Evaluator,
) -> None:
    expensive = evaluator.expensive(100, 0.01, "one")
    cheap = evaluator.cheap(20, 0.0005, "one")
    moderate = evaluator.moderate(5, 0.002, "one")
    further = evaluator.expensive(100, 0.01, "one")
    evaluator.event()
    # 0.05 s: the cheap and the moderate ones take 0.01 s of it each, and three of the others the
    # rest.
    assert evaluator.queries == [*expensive[:3], *cheap, *moderate]
    assert evaluator.suspended == [*expensive[3:], *further]
    assert evaluator.clock.now == pytest.approx(0.05)
    assert set(evaluator.messages) == {
        "the queries of this account or client take too much time in total, and this is one of "
        "the most expensive: it may visit 4.51e+07 nodes"
    }


def test_many_slow_queries_do_not_affect_other_clients(evaluator: Evaluator) -> None:
    greedy = evaluator.expensive(1_000, 0.04, "greedy")
    others = [
        *evaluator.expensive(1, 0.04, "other"),
        *evaluator.moderate(5, 0.008, "another"),
        *evaluator.cheap(100, 0.0005, "third"),
    ]
    first = evaluator.event()
    assert first < 0.05 + 0.04 + 0.13
    for _ in range(100):
        evaluator.clock.now += 1.0
        evaluator.event()
    assert [each for each in evaluator.queries if each not in greedy] == others
    assert len([each for each in evaluator.queries if each in greedy]) in (1, 2)


def test_client_gets_its_share_and_free_time_in_the_long_run(evaluator: Evaluator) -> None:
    """Back-to-back events: only evaluation advances the clock."""
    evaluator.cheap(3, 0.0001, "modest")
    evaluator.expensive(1, 0.002, "greedy")
    began = evaluator.clock.now
    for _ in range(2_000):
        evaluator.clock.now += 0.002
        evaluator.event()
        if evaluator.suspended:
            break
    # Each event exceeds the free time by 0.0015 s; a tenth of 0.0043 s is repaid.
    assert evaluator.clock.now - began == pytest.approx(
        0.25 / (0.0015 - 0.00043) * 0.0043, rel=0.01
    )
    assert [each.numbers for each in evaluator.suspended] == [(4,)]
    assert len(evaluator.queries) == 3


def test_rare_events_allow_slow_queries(evaluator: Evaluator) -> None:
    evaluator.expensive(5, 0.009, "one")
    for _ in range(1_000):
        evaluator.clock.now += 0.5
        evaluator.event()
    assert evaluator.suspended == []


def test_cheap_queries_outlive_expensive_ones(evaluator: Evaluator) -> None:
    cheap = evaluator.cheap(20, 0.0001, "one")
    expensive = evaluator.expensive(10, 0.0081, "one")
    evaluator.event()
    assert evaluator.suspended == expensive[6:]
    for _ in range(40):
        evaluator.event()
    assert evaluator.queries == cheap


def test_too_many_cheap_queries_are_suspended(evaluator: Evaluator) -> None:
    evaluator.cheap(2_000, 0.001, "one")
    other = evaluator.cheap(10, 0.001, "other")
    assert evaluator.event() < 0.1 + 0.012
    for _ in range(20):
        evaluator.event()
    assert [each for each in evaluator.queries if each.numbers[0] > 2_000] == other
    assert len(evaluator.queries) - len(other) <= 1


def test_thousand_queries_are_free_without_an_index(evaluator: Evaluator) -> None:
    mixed = [
        query
        for _ in range(500)
        for query in (*evaluator.cheap(1, 0.00002, "one"), *evaluator.moderate(1, 0.00002, "one"))
    ]
    for _ in range(30):
        evaluator.event(free=FREE_SECONDS_WITHOUT_INDEX)
    assert evaluator.queries == mixed
    evaluator.cheap(1_000, 0.001, "one")
    for _ in range(3):
        evaluator.event(free=FREE_SECONDS_WITHOUT_INDEX)
    assert evaluator.suspended


def test_shared_query_is_charged_to_the_first_client(evaluator: Evaluator) -> None:
    shared = evaluator.expensive(1, 0.01, "first", "second")
    evaluator.expensive(100, 0.01, "second")
    own = evaluator.expensive(3, 0.01, "first")
    evaluator.event()
    assert shared[0] in evaluator.queries and {*own} <= {*evaluator.queries}
    # The second client got 0.05 s and paid nothing for the shared query.
    assert len(evaluator.suspended) == 100 - 5


def test_shared_query_continues_while_one_client_can_pay(evaluator: Evaluator) -> None:
    evaluator.expensive(100, 0.04, "greedy")
    shared = evaluator.add("//a[../@x = 100 and ../@y = 1]", 0.04, "greedy", "modest")
    for _ in range(6):
        evaluator.event()
    assert evaluator.queries == [shared]


def test_larger_events_grant_no_more_time(evaluator: Evaluator) -> None:
    """The node stops for the evaluations on an event of any size."""
    evaluator.cheap(200, 0.001, "one")
    queries = evaluator.queries = [
        LargePreparedQuery(each.timed, each.numbers) for each in evaluator.queries
    ]
    evaluator.event(bytes_=10 * 64 * 1024)
    # 0.1 s.
    assert evaluator.queries == queries[:100]


def test_the_time_for_worst_cases_is_limited(evaluator: Evaluator) -> None:
    evaluator.cheap(100, 0.0, "one")
    others = evaluator.cheap(10, 0.0, "other")
    queries = evaluator.queries = [
        *(SlowlyBoundQuery(each.timed, each.numbers) for each in evaluator.queries[:100]),
        *others,
    ]
    # Twice the time of one query, and the first worst case.
    assert evaluator.event() == pytest.approx(0.104)
    assert evaluator.queries == [*queries[:26], *others]
    assert set(evaluator.messages) == {
        "the queries of this account or client take too much time in total"
    }
    # It is no debt.
    assert evaluator.accounts._by_number[1].owed_seconds == 0.0


def test_a_pause_during_a_worst_case_is_charged_to_no_client(evaluator: Evaluator) -> None:
    evaluator.queries = [
        SlowlyBoundQuery(each.timed, each.numbers) for each in evaluator.cheap(5, 0.0, "one")
    ]
    for each in evaluator.queries[:3]:
        assert isinstance(each, SlowlyBoundQuery)
        each.seconds = 100.0
    evaluator.event()
    assert evaluator.suspended == []


def test_pause_suspends_no_query_of_a_client_in_debt(evaluator: Evaluator) -> None:
    expensive = evaluator.expensive(7, 0.006, "one")
    others = evaluator.cheap(3, 0.0001, "one")
    evaluator.event()
    evaluator.accounts.begin_event(0.0)
    account = evaluator.accounts.find_payer(others[0].numbers, is_cheap=True)
    assert account is not None
    evaluator.accounts.charge(account, 0.5)
    evaluator.queries = others
    others[1].timed.pause = 0.002
    evaluator.event()
    assert (evaluator.queries, evaluator.suspended) == (others, [])
    # A repeated delay is not a pause.
    evaluator.queries = [*others, *expensive]
    evaluator.event()
    assert (evaluator.queries, evaluator.suspended) == (others, expensive)


def test_pause_of_the_machine_is_charged_to_no_client(evaluator: Evaluator) -> None:
    pause = evaluator.add("//a[../@x]", 100.0, "one")
    others = evaluator.moderate(20, 0.001, "one")
    evaluator.event()
    assert (evaluator.queries, evaluator.suspended) == (others, [pause])


# --------------------------------------------------------------------------- in an engine

#: No shape decides it.
UNDECIDED = "count(//remark[count(//remark[. != '{0}']) > 1]) != 5{0}"
EVERYWHERE = StreamPattern.parse(">")


def remarks(number: int, *, recognised: bool) -> bytes:
    first = b"1" if recognised else b"&#49;"
    inside = b"<remark>x%d</remark>" % number * 3
    return event(b"<flight><id>%s</id>%s</flight>" % (first, inside), sequence_number=number + 1)


def remaining_queries(
    engine: IMatcher, clock: Clock, monkeypatch: pytest.MonkeyPatch, *, recognised: bool
) -> tuple[int, set[int]]:
    """Return how many of a client's hundred queries remain, and others' suspended queries."""
    matches = CompiledXPath.matches

    def slowly(compiled: CompiledXPath, subject: ParsedEvent) -> bool:
        clock.now += 0.0001
        return matches(compiled, subject)

    documents = [remarks(number, recognised=recognised) for number in range(100)]
    engine.match(documents[:50])
    monkeypatch.setattr(CompiledXPath, "matches", slowly)
    greedy = {
        engine.subscribe(EVERYWHERE, parse_query(UNDECIDED.format(n)), "greedy") for n in range(100)
    }
    others = {
        engine.subscribe(EVERYWHERE, parse_query(UNDECIDED.format(n)), f"other-{n}")
        for n in range(100, 120)
    }
    for document in documents[50:]:
        (verdict,) = engine.match([document])
        assert isinstance(verdict, Accepted)
        matched = {*verdict.subscriptions}
        assert others <= matched
    suspended = {number for number, _ in engine.take_suspended()}
    assert matched == (greedy | others) - suspended
    return len(greedy - suspended), suspended - greedy


def test_undecided_queries_are_charged_to_their_client(
    flight_dtd: Dtd, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    engine = Switch(KnownDtds(flight_dtd), clock=clock)
    remaining, lost = remaining_queries(engine, clock, monkeypatch, recognised=True)
    # Five are free, and a tenth of the passing time pays for as many again.
    assert 5 <= remaining <= 10 and not lost


@pytest.mark.parametrize(("engine", "recognised"), [("switch", False), ("reference", True)])
def test_queries_that_an_index_could_decide_are_not_charged(
    flight_dtd: Dtd, monkeypatch: pytest.MonkeyPatch, engine: str, recognised: bool
) -> None:
    clock = Clock()
    made = ENGINES[engine](KnownDtds(flight_dtd), clock=clock)
    assert remaining_queries(made, clock, monkeypatch, recognised=recognised) == (100, set())
