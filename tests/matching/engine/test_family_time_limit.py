"""Who pays for partial evaluations on a parsed event."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from broker.dtd.reference import DtdReference
from broker.event.stream import StreamPattern
from broker.matching.budget import Budget
from broker.matching.client_time_share import ClientTimeShares
from broker.matching.contract import Accepted
from broker.matching.document_limits import MAX_MARKUP
from broker.matching.engine.family_time_limit import FREE_FAMILY_SECONDS, FamilyTimeLimit
from broker.matching.engine.subscription_registry import SubscriptionRegistry
from broker.matching.partial.work_budget import TooExpensive, WorkBudget
from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import parse_query
from broker.matching.query_bounds import QueryBounds
from broker.matching.switch import Switch
from broker.matching.undescribed import without_dtds
from tests.matching.conftest import KnownDtds, event
from tests.matching.processor_time import at_most

#: Seconds of a unit of work, and of one query.
UNIT, RUN_TIME = 0.0001, 0.05
ALL = StreamPattern.parse(">")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Site:
    """Families of accounts, and one event."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.shares = ClientTimeShares(self.clock, RUN_TIME, 0.1)
        self._registry = SubscriptionRegistry()
        budget = Budget(QueryBounds(QueryLimits(), self.clock, RUN_TIME), self.shares)
        self.shares.begin_event(0.02)
        self._patterns = self._registry.stream_patterns
        self._make_time_limit = lambda: FamilyTimeLimit(
            budget, self._patterns.get_view("here", 0).patterns
        )

    def subscribe(self, query: str, account: str, pattern: str = ">") -> int:
        number = self._registry.add_subscription(
            StreamPattern.parse(pattern), parse_query(query), 2
        )
        self.shares.add_subscription(number, account)
        return number

    def begin(self) -> None:
        self.time_limit = self._make_time_limit()

    def evaluate(self, number: int, units: int) -> tuple[bool, float]:
        """Evaluate the family of a query in so many units; return if it ended, and its seconds."""
        query = self._registry.query_of(number)
        assert query is not None

        def spend(make_work: Callable[[], WorkBudget]) -> str:
            work = make_work()
            try:
                for _ in range(units):
                    self.clock.now += UNIT
                    work.spend()
            except TooExpensive:
                return "undecided"
            return "decided"

        before = self.clock.now
        found = self.time_limit.evaluate_family(query.families[0], spend)
        assert found in (None, "decided")
        return found is not None, self.clock.now - before


@pytest.fixture
def site() -> Site:
    return Site()


def test_short_evaluations_are_free(site: Site) -> None:
    number = site.subscribe("//a = 1", "alice")
    site.begin()
    for _ in range(9):
        assert site.evaluate(number, 10)[0]
    assert site.shares._by_number[number].event == 0


def test_an_account_pays_for_its_long_families(site: Site) -> None:
    greedy = [site.subscribe(f"//a[{n}] = 1", "greedy") for n in range(1, 5)]
    modest = site.subscribe("//b = 1", "modest")
    site.begin()
    seconds = 0.0
    results = []
    for number in greedy:
        ended, took = site.evaluate(number, 600)
        results.append(ended)
        seconds += took
    # Twice the time of one query, and what is free.
    assert results == [True, False, False, False]
    assert seconds == pytest.approx(2 * RUN_TIME + FREE_FAMILY_SECONDS, abs=0.015)
    assert site.evaluate(modest, 600)[0]


def test_a_family_is_paid_by_any_account_that_can(site: Site) -> None:
    shared = site.subscribe("//a[2] = 1", "greedy")
    site.subscribe("//a[2] = 2", "modest")
    own = site.subscribe("//a[3] = 1", "greedy")
    site.begin()
    assert not site.evaluate(own, 1_500)[0]
    assert site.evaluate(shared, 600)[0]
    assert not site.evaluate(own, 600)[0]


def test_an_account_that_may_not_read_the_event_pays_nothing(site: Site) -> None:
    number = site.subscribe("//a = 1", "elsewhere", "there")
    site.begin()
    ended, seconds = site.evaluate(number, 600)
    assert not ended and seconds < FREE_FAMILY_SECONDS + 0.01
    assert site.shares._by_number[number].event == 0


#: Of different templates, each undecided in long time.
GREEDY = (
    "//a[. = '{0}']/following-sibling::*[{1}]",
    "//a[string-length(.) > {0}]/..//a[{1}]",
    "//*[. = '{0}'][position() > {1}]",
)
FAMILIES, MEMBERS = 30, 33


def test_families_of_one_account_end_before_those_of_another() -> None:
    engine = Switch(KnownDtds(), clock=time.perf_counter, processor_clock=time.thread_time)
    greedy = {
        engine.subscribe(ALL, parse_query(GREEDY[f % 3].format(m, f + 2)), "greedy")
        for f in range(FAMILIES)
        for m in range(MEMBERS)
    }
    modest = {
        number: engine.subscribe(ALL, parse_query(f"//b = 'x{number}'"), "modest")
        for number in range(100)
    }
    inside = b"<a>x</a>" * (MAX_MARKUP // 2 - 50) + b"<b>x7</b>"
    document = event(b"<r>%s</r>" % inside, type_name="odd")
    with at_most(0.3):
        (verdict,) = engine.match([document], variants=without_dtds([DtdReference("odd", "1.0")]))
    assert isinstance(verdict, Accepted)
    suspended = {number for number, _ in engine.take_suspended()}
    assert suspended <= greedy and len(suspended) > len(greedy) / 2
    assert set(verdict.subscriptions) & set(modest.values()) == {modest[7]}
