"""A hundred thousand distinct queries of one client: work per turn, and what is left behind.

Beyond `limits.max_subscriptions_per_client` a node refuses them (`tests/simulation`); here the
engine has to take them all, as from many clients. Work is counted in calls, since the machine's
speed varies.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import attrs
import pytest

from broker.dtd.dtd import Dtd
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted, Verdict
from broker.matching.engine.distinct_query import DistinctQuery
from broker.matching.engine.query_family import QueryFamily
from broker.matching.index.member import Member
from broker.matching.query.query import Query, parse_query
from broker.matching.query.tree import Binary, FunctionCall, Literal, Number
from broker.matching.switch import Switch
from tests.matching.conftest import KnownDtds
from tests.matching.engine.test_hostile import flight, leg
from tests.matching.partial.test_bounds import calls_of

QUERIES = 100_000
PORTION = 5_000
ALL = StreamPattern.parse(">")
FORMS = (
    "//altitude = {}",
    "//leg/speed < {}",
    "starts-with(/flight/id, 'x{}')",
    "contains(//leg/@status, 'y{}')",
)
#: Calls of Python functions: for one document, for one query of a new family, for one change.
CALLS_OF_A_MATCH = 2_000
CALLS_OF_NEWS = 10
CALLS_OF_A_CHANGE = 200


def made(forms: tuple[str, ...], count: int) -> Iterator[Query]:
    """So many queries of these forms: as the parser makes them, but in a tenth of its time."""
    parsed = [(form, parse_query(form.format(0))) for form in forms]
    for number in range(count):
        form, query = parsed[number % len(forms)]
        match query.expression:
            case Binary(right=Number()) as whole:
                literal = attrs.evolve(whole.right, value=float(number))
                expression = attrs.evolve(whole, right=literal)
            case FunctionCall(arguments=(subject, Literal() as letters)) as whole:
                literal = attrs.evolve(letters, value=f"{letters.value[:1]}{number}")
                expression = attrs.evolve(whole, arguments=(subject, literal))
        text = form.format(number)
        yield attrs.evolve(query, text=text, compilable=text, expression=expression)


def test_the_queries_are_those_that_the_parser_makes() -> None:
    for query in list(made(FORMS, 2_000))[-8:]:
        assert query.expression == parse_query(query.text).expression


def alive() -> int:
    """How many queries, members and families there are in this process."""
    gc.collect()
    return sum(isinstance(each, (DistinctQuery, Member, QueryFamily)) for each in gc.get_objects())


class Engine:
    """The engine with the query of another client, who is to notice nothing."""

    def __init__(self, dtd: Dtd) -> None:
        self.switch = Switch(KnownDtds(dtd), clock=lambda: 0.0)
        self._other = self.subscribe(parse_query("//altitude > 5"))
        recognised = flight(leg(900_000, 900_000), leg(900_001, 900_001))
        self._documents = (recognised, recognised.replace(b"<id>", b"<id>&#49;"))
        for _ in range(3):
            # Until there is a shape.
            self.switch.match(self._documents)

    def subscribe(self, query: Query) -> int:
        """The number of a subscription to all streams."""
        return self.switch.subscribe(ALL, query)

    def serves_the_other(self, news: int = 0) -> None:
        """With a document of a known shape, and with one that has to be parsed.

        The first of each may work on `news`, queries of new families.
        """
        for document in self._documents:
            verdicts: list[Verdict] = []
            calls = calls_of(partial(self._match, document, verdicts))
            assert calls < CALLS_OF_A_MATCH + CALLS_OF_NEWS * news
            (verdict,) = verdicts
            assert isinstance(verdict, Accepted)
            assert verdict.subscriptions == (self._other,)

    def _match(self, document: bytes, verdicts: list[Verdict]) -> None:
        verdicts += self.switch.match([document])

    def change(self, function: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
        """Make changes, and count what a part of them takes."""
        counted = len(arguments) // 10
        results: list[Any] = []
        calls = calls_of(lambda: results.extend(map(function, arguments[:counted])))
        assert calls < CALLS_OF_A_CHANGE * counted
        return [*results, *map(function, arguments[counted:])]


@pytest.mark.slow
@pytest.mark.soak
def test_a_hundred_thousand_queries_are_taken_and_given_back_beside_others(
    flight_dtd: Dtd,
) -> None:
    engine = Engine(flight_dtd)
    engine.serves_the_other()
    before, alive_before = engine.switch.statistics(), alive()
    queries = made(FORMS, QUERIES)
    numbers: list[int] = []
    while len(numbers) < QUERIES:
        news = 0 if numbers else PORTION
        numbers += engine.change(engine.subscribe, list(islice(queries, PORTION)))
        engine.serves_the_other(news)
        engine.serves_the_other()
    full = engine.switch.statistics()
    assert full["distinct_queries"] == QUERIES + 1
    assert full["templates"] == len(FORMS) + 1
    random.Random(1).shuffle(numbers)
    while numbers:
        engine.change(engine.switch.unsubscribe, numbers[-PORTION:])
        del numbers[-PORTION:]
        engine.serves_the_other()
    after = engine.switch.statistics()
    for name in ("subscriptions", "distinct_queries", "templates", "shapes", "shape_bytes"):
        assert after[name] == before[name]
    # Of what was parsed only the other's query was evaluated.
    assert after["evaluations"] - before["evaluations"] == after["parsed"] - before["parsed"]
    assert alive() == alive_before
