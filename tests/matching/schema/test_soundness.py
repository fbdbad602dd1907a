"""No valid event matches a query that is called unsatisfiable, for random DTDs and queries."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference
from broker.errors import BadDtd, BadQuery, QueryTooExpensive
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted
from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import Query, parse_query
from broker.matching.reference_matcher import ReferenceMatcher
from broker.matching.schema.abstract_evaluation import analyse_query, check_satisfiability
from broker.matching.schema.schema import Schema
from broker.matching.schema.schema_difference import Effect, compare_versions, find_effect
from tests.matching.schema.generated_types import GeneratedQueries, GeneratedType
from tests.seeds import seeds

MADE = DtdReference("made", "1.0")
EVERYTHING = StreamPattern.parse(">")
LIMITS = QueryLimits(max_cost=10**9)
DOCUMENTS, QUERIES = 25, 60


class OneType:
    """A cache of one DTD."""

    def __init__(self, dtd: Dtd) -> None:
        self._dtd = dtd

    def get(self, reference: DtdReference) -> Dtd | None:
        return self._dtd if reference == self._dtd.reference else None


def load(made: GeneratedType, version: str = "1.0") -> Dtd | None:
    """Load the DTD; None if its content models are not deterministic."""
    catalogue = Catalogue.load(shipped_folder())
    try:
        return Dtd.load(DtdReference("made", version), made.text, catalogue.read)
    except BadDtd:
        return None


def documents(
    made: GeneratedType, make_event: Callable[..., bytes], version: str = "1.0"
) -> list[bytes]:
    found = []
    for _ in range(DOCUMENTS):
        try:
            payload = made.payload()
        except RecursionError:
            continue
        found.append(make_event(payload, type_name="made", version=version))
    return found


def queries(random: Random) -> list[Query]:
    made = GeneratedQueries(random)
    found: list[Query] = []
    while len(found) < QUERIES:
        try:
            found.append(parse_query(made.query(), {"p": "urn:p"}, LIMITS))
        except (BadQuery, QueryTooExpensive):
            continue
    return found


def matching(dtd: Dtd, wanted: list[Query], events: list[bytes]) -> list[set[Query]]:
    """Return for each event the queries that match it by lxml."""
    matcher = ReferenceMatcher(OneType(dtd), lambda: 0.0)  # type: ignore[arg-type]
    numbers = {matcher.subscribe(EVERYTHING, query): query for query in wanted}
    found = []
    for verdict in matcher.match(events):
        assert isinstance(verdict, Accepted), verdict
        found.append({numbers[number] for number in verdict.subscriptions})
    return found


@pytest.mark.parametrize("seed", seeds(1, 12))
def test_no_valid_event_matches_an_unsatisfiable_query(
    seed: int, make_event: Callable[..., bytes]
) -> None:
    impossible = possible = matched = 0
    for each in range(10 * seed, 10 * seed + 10):
        made = GeneratedType(each)
        dtd = load(made)
        if dtd is None:
            continue
        wanted = queries(Random(each))
        schemas = (Schema(dtd), Schema(dtd, shared=True))
        called = {q for q in wanted if any(check_satisfiability(q, schema) for schema in schemas)}
        for found in matching(dtd, wanted, documents(made, make_event)):
            matched += len(found)
            for query in found & called:
                reason = check_satisfiability(query, schemas[0]) or check_satisfiability(
                    query, schemas[1]
                )
                raise AssertionError(f"seed {each}: {query.text} matches, though {reason}")
        impossible += len(called)
        possible += len(wanted) - len(called)
    # The test is worthless if no query is unsatisfiable or none matches.
    assert impossible > possible / 10 and matched > 0


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_lower_work_limit_makes_no_further_query_unsatisfiable(seed: int) -> None:
    for each in range(10 * seed, 10 * seed + 10):
        dtd = load(GeneratedType(each))
        if dtd is None:
            continue
        schema = Schema(dtd)
        for query in queries(Random(each)):
            whole = analyse_query(query, schema)
            for work in (1, 10, 40):
                part = analyse_query(query, schema, work)
                assert part.work <= work
                if part.unsatisfiable is not None:
                    assert whole.unsatisfiable is not None
                assert part.is_complete or part.unsatisfiable is None


@pytest.mark.parametrize("seed", seeds(1, 6))
def test_an_unaffected_query_matches_alike_in_both_versions(
    seed: int, make_event: Callable[..., bytes]
) -> None:
    """The new version has other attributes on one element. A query that reads none of them matches
    as before, also with the new defaults.
    """
    compared = 0
    for each in range(10 * seed, 10 * seed + 10):
        old, new = GeneratedType(each), GeneratedType(each)
        changed = sorted(new.attributes)[each % len(new.attributes)]
        new.attributes[changed] = {
            key: ("(x | y) 'y'", ("x", "y")) for key in ("k", "v") if each % 3 or key == "k"
        }
        one, other = load(old), load(new, "2.0")
        if one is None or other is None:
            continue
        between = compare_versions(one, other)
        wanted = [query for query in queries(Random(each)) if "$" not in query.text]
        same = [q for q in wanted if find_effect(q, between).effect is Effect.UNAFFECTED]
        before = matching(one, same, _valid(one, documents(old, make_event)))
        events = [
            event.replace(b"made 1.0", b"made 2.0").replace(b">1.0<", b">2.0<")
            for event in _valid(one, documents(GeneratedType(each), make_event))
        ]
        kept = [i for i, event in enumerate(events) if _valid(other, [event])]
        after = matching(other, same, [events[i] for i in kept])
        assert [before[i] for i in kept] == after, f"seed {each}"
        compared += len(kept) * len(same)
    assert compared > 0


def _valid(dtd: Dtd, events: list[bytes]) -> list[bytes]:
    matcher = ReferenceMatcher(OneType(dtd), lambda: 0.0)  # type: ignore[arg-type]
    verdicts = matcher.match(events)
    return [e for e, v in zip(events, verdicts, strict=True) if isinstance(v, Accepted)]
