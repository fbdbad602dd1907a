"""A hundred thousand distinct queries: work per call, and memory after their removal.

A node refuses so many of one client (`limits.max_subscriptions_per_client`, tested in
`tests/simulation`). Here they stand for many clients. Work is measured in calls, since the
machine's speed varies.
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
from broker.matching.query.tree import Binary, Expression, FunctionCall, Literal, Number
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
#: Maximum Python calls for one document, one query of a new family, and one change.
CALLS_OF_A_MATCH = 2_000
CALLS_OF_A_NEW_QUERY = 10
CALLS_OF_A_CHANGE = 200


def make_queries(forms: tuple[str, ...], count: int) -> Iterator[Query]:
    """Yield queries equal to the parser's, in a tenth of its time."""
    parsed = [(form, parse_query(form.format(0))) for form in forms]
    for number in range(count):
        form, query = parsed[number % len(forms)]
        match query.expression:
            case Binary(right=Number() as constant) as whole:
                numeral = attrs.evolve(constant, value=float(number))
                expression: Expression = attrs.evolve(whole, right=numeral)
            case FunctionCall(arguments=(subject, Literal() as letters)) as call:
                literal = attrs.evolve(letters, value=f"{letters.value[:1]}{number}")
                expression = attrs.evolve(call, arguments=(subject, literal))
        text = form.format(number)
        yield attrs.evolve(query, text=text, compilable=text, expression=expression)


def test_the_generated_queries_equal_the_parsers() -> None:
    for query in list(make_queries(FORMS, 2_000))[-8:]:
        assert query.expression == parse_query(query.text).expression


def count_live_objects() -> int:
    """Return the number of queries, members and families in this process."""
    gc.collect()
    return sum(isinstance(each, (DistinctQuery, Member, QueryFamily)) for each in gc.get_objects())


class Engine:
    """The engine with a query of another client, which must not be affected."""

    def __init__(self, dtd: Dtd) -> None:
        self.switch = Switch(KnownDtds(dtd), clock=lambda: 0.0)
        self._other = self.subscribe(parse_query("//altitude > 5"))
        recognised = flight(leg(900_000, 900_000), leg(900_001, 900_001))
        self._documents = (recognised, recognised.replace(b"<id>", b"<id>&#49;"))
        for _ in range(3):
            # Until there is a shape.
            self.switch.match(self._documents)

    def subscribe(self, query: Query) -> int:
        """Subscribe to all streams."""
        return self.switch.subscribe(ALL, query)

    def check_other_client(self, new_queries: int = 0) -> None:
        """Match a document of a known shape and one that must be parsed.

        The first call may bind `new_queries` queries of new families.
        """
        for document in self._documents:
            verdicts: list[Verdict] = []
            calls = calls_of(partial(self._match, document, verdicts))
            assert calls < CALLS_OF_A_MATCH + CALLS_OF_A_NEW_QUERY * new_queries
            (verdict,) = verdicts
            assert isinstance(verdict, Accepted)
            assert verdict.subscriptions == (self._other,)

    def _match(self, document: bytes, verdicts: list[Verdict]) -> None:
        verdicts += self.switch.match([document])

    def change(self, function: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
        """Make changes, and count the calls of some of them."""
        counted = len(arguments) // 10
        results: list[Any] = []
        calls = calls_of(lambda: results.extend(map(function, arguments[:counted])))
        assert calls < CALLS_OF_A_CHANGE * counted
        return [*results, *map(function, arguments[counted:])]


@pytest.mark.slow
@pytest.mark.soak
def test_a_hundred_thousand_queries_are_added_and_removed_without_effect_on_others(
    flight_dtd: Dtd,
) -> None:
    engine = Engine(flight_dtd)
    engine.check_other_client()
    before, live_before = engine.switch.statistics(), count_live_objects()
    queries = make_queries(FORMS, QUERIES)
    numbers: list[int] = []
    while len(numbers) < QUERIES:
        new_queries = 0 if numbers else PORTION
        numbers += engine.change(engine.subscribe, list(islice(queries, PORTION)))
        engine.check_other_client(new_queries)
        engine.check_other_client()
    full = engine.switch.statistics()
    assert full["distinct_queries"] == QUERIES + 1
    assert full["templates"] == len(FORMS) + 1
    random.Random(1).shuffle(numbers)
    while numbers:
        engine.change(engine.switch.unsubscribe, numbers[-PORTION:])
        del numbers[-PORTION:]
        engine.check_other_client()
    after = engine.switch.statistics()
    for name in ("subscriptions", "distinct_queries", "templates", "shapes", "shape_bytes"):
        assert after[name] == before[name]
    # Of the parsed documents only the other client's query was evaluated.
    assert after["evaluations"] - before["evaluations"] == after["parsed"] - before["parsed"]
    assert count_live_objects() == live_before
