"""Special cases, some of which once failed."""

from __future__ import annotations

import random

import pytest

from broker.dtd.dtd import Dtd
from broker.event.envelope import Liveness
from broker.matching.contract import Refused
from broker.matching.query.limits import QueryLimits
from tests.matching.conftest import event
from tests.matching.engine.engine_pair import EnginePair
from tests.seeds import seeds


@pytest.fixture
def engines(flight_dtd: Dtd) -> EnginePair:
    return EnginePair(flight_dtd)


def flight(*legs: str, flight_id: str = "1") -> bytes:
    return event(f"<flight><id>{flight_id}</id>{''.join(legs)}</flight>".encode())


def leg(altitude: str) -> str:
    return f"<leg><altitude>{altitude}</altitude></leg>"


@pytest.mark.parametrize("value", [b"x", b"9" * 19, b"9" * 500, b"9" * 5_000, b"-1", b" 5", b"1.5"])
@pytest.mark.parametrize("field", ["TimeStamp", "SequenceNumber", "Incarnation"])
def test_a_bad_number_in_a_recognised_envelope_is_refused_like_any_other(
    engines: EnginePair, field: str, value: bytes
) -> None:
    engines.subscribe(f"${field} > 5")
    engines.subscribe(f"${field} * 2 = 14")
    document = event()
    engines.match([document] * 3)
    start = document.index(f"<Mspaces:{field}>".encode()) + len(f"<Mspaces:{field}>")
    bad = document[:start] + value + document[document.index(b"<", start) :]
    before = engines.count("recognised")
    verdicts = engines.match([document, bad, document])
    assert isinstance(verdicts[1], Refused)
    assert engines.count("recognised") == before + 2


def test_remarks_around_the_document_are_seen_by_queries_of_large_families(
    engines: EnginePair,
) -> None:
    for number in range(40):
        engines.subscribe(f'/Mspaces:Event/preceding-sibling::comment() = "x{number}"')
        engines.subscribe(f'/comment() = "x{number}"')
        engines.subscribe(f"count(/node()) = {number}")
    document = event()
    before = document.replace(b"<!DOCTYPE", b"<!--x3--><!DOCTYPE")
    alone = event(None).replace(b"<!DOCTYPE", b"<!--x3--><!DOCTYPE")
    engines.match([document, before, alone, document + b"<!--x4-->", alone + b"<?p x?>"])
    assert engines.matched > 5


def test_a_query_on_other_streams_is_neither_evaluated_nor_suspended(flight_dtd: Dtd) -> None:
    engines = EnginePair(flight_dtd, query_limits=QueryLimits())
    query = "//leg[count(following::leg[altitude > 5 and ..//leg]) > 1]"
    expensive = engines.subscribe(query, "other")
    document = event(f"<flight><id>1</id>{leg('7') * 600}</flight>".encode(), stream="asdi.zbw")
    for _ in range(12):
        engines.match([document])
    assert engines.count("recognised") > 0
    assert engines.count("evaluations") == 0
    assert engines.suspended == set()
    engines.match([document.replace(b"asdi.zbw", b"other")])
    assert engines.suspended == {expensive}
    engines.match([flight(leg("6"), leg("7"))])


@pytest.mark.parametrize("seed", seeds(2, 5))
def test_a_suspended_query_matched_earlier_events_and_matches_no_later_ones(
    flight_dtd: Dtd, seed: int
) -> None:
    """Holds for recognised and parsed events, and for queries with and without evaluation."""
    engines = EnginePair(flight_dtd, query_limits=QueryLimits())
    queries = (
        "//leg[count(following::leg[altitude > {}]) > 1] or /flight/id = '2'",
        "//altitude > {}",
    )
    large = flight(leg("7") * 1_100)
    known = [flight(leg("6"), leg("7")), flight(leg("6"), flight_id="2"), flight(leg("7") * 5)]
    for _ in range(3):
        engines.match([large, *known])
    expensive = [engines.subscribe(queries[0].format(altitude)) for altitude in (1, 5, 6)]
    engines.subscribe(queries[1].format(5))
    remark = known[0].replace(b"<flight>", b"<flight><!-- so -->")
    batch = [*known, remark] * 4
    random.Random(seed).shuffle(batch)
    half = len(batch) // 2
    engines.match(batch[:half] + [large] + batch[half:] + [large])
    assert engines.suspended == {*expensive}
    assert engines.matched > half


@pytest.mark.parametrize("first", [0, 1])
def test_a_suspended_query_selects_no_later_events(flight_dtd: Dtd, first: int) -> None:
    engines = EnginePair(flight_dtd, query_limits=QueryLimits())
    large, small = flight(leg("7") * 1_100), flight(leg("6"), flight_id="2")
    for _ in range(3):
        engines.match([small])
    number = engines.subscribe("/flight/id = '2' or //leg[count(following::leg[altitude > 5]) > 1]")
    batch = [small, flight(leg("6"), leg("7")), large, small]
    engines.select(number, batch[first:], Liveness.LIVE)


#: Pairs of one template: one query matches where the other's structure excludes it.
CONTRADICTING = [
    ("count(//leg) > 3", "count(//leg) > -1"),
    ("//altitude > 5", "//altitude > 'x'"),
    ("string(//altitude) = 'x'", "string(//altitude) = ''"),
    ("string(//altitude) != ''", "string(//altitude) != 'x'"),
    ("starts-with(//altitude, 'x')", "starts-with(//altitude, '')"),
    ("not(//altitude = 5)", "not(//altitude = 'x')"),
    ("number(//altitude) != 5", "number(//altitude) != -0"),
    ("sum(//altitude) = 5", "sum(//altitude) = 0"),
    ("sum(//altitude) >= 1", "sum(//altitude) >= -0"),
    ("string-length(//altitude) > 1", "string-length(//altitude) > -1"),
    ("substring(//altitude, 1) = 'x'", "substring(//altitude, 1) = ''"),
    ("concat(//altitude, 'a') = 'x'", "concat(//altitude, 'a') = 'a'"),
    ("name(//altitude) = 'x'", "name(//altitude) = ''"),
    ("//leg[count(altitude) > 1]", "//leg[count(altitude) > -1]"),
    ("string(//altitude > 5) = 'x'", "string(//altitude > 5) = 'false'"),
    ("floor(count(//leg)) = 1", "floor(count(//leg)) = 0"),
    ("contains(concat(//altitude, 'ab'), 'x')", "contains(concat(//altitude, 'ab'), 'b')"),
    ("translate(//altitude, 'a', 'b') = 'x'", "translate(//altitude, 'a', 'b') = ''"),
    ("(//altitude > 5) = 3", "(//altitude > 5) = 0"),
]


@pytest.mark.parametrize("queries", CONTRADICTING, ids=lambda pair: pair[0])
@pytest.mark.parametrize("many", [False, True])
def test_the_literal_of_one_query_does_not_decide_its_family(
    flight_dtd: Dtd, queries: tuple[str, str], many: bool
) -> None:
    for order in (queries, queries[::-1]):
        engines = EnginePair(flight_dtd)
        numbers = [engines.subscribe(query) for query in order]
        if many:
            numbers += [
                engines.subscribe(queries[0].replace("5", str(n)).replace("'x'", f"'x{n}'"))
                for n in range(40)
            ]
        documents = [
            *([flight()] * 3),
            *([flight("<leg/>")] * 3),
            *([flight(leg(value)) for value in ("5", "x", "x7", "6", "-0", "a")]),
            flight(leg("x"), leg("5"), leg("7"), leg("8")),
        ]
        for document in documents:
            engines.match([document])
        assert engines.count("recognised") >= 4
        for number in numbers[:2]:
            engines.select(number, documents, Liveness.RECOVERY)
        engines.unsubscribe(numbers[0])
        engines.match(documents)


@pytest.mark.parametrize(
    "literal",
    [
        "'NaN'",
        "'inf'",
        "'-inf'",
        "'x'",
        "-0",
        "0",
        "'-0'",
        "' 5 '",
        "''",
        "'1e3'",
        "1e999",
        "-1e999",
    ]
    + ["0.1", "'0.1'", "123456789012345678901", "'+5'", "'1_000'", "--5", "---5"],
)
def test_unusual_numbers_as_literals(engines: EnginePair, literal: str) -> None:
    for operator in ("=", "!=", "<", "<=", ">", ">="):
        for subject in ("//altitude", "number(//altitude)", "string(//altitude)", "count(//leg)"):
            engines.subscribe(f"{subject} {operator} {literal}")
            engines.subscribe(f"{literal} {operator} {subject}")
            engines.subscribe(f"{subject} {operator} 5")
    values = (
        "5",
        "0",
        "-0",
        " 5 ",
        "NaN",
        "inf",
        "+5",
        "1_000",
        "1e3",
        "0.1",
        "1e999",
        "-1e999",
        "x",
    )
    for _ in range(3):
        engines.match([flight(), *(flight(leg(value)) for value in values)])
    assert engines.count("recognised") > len(values)
    assert engines.matched > 0


def test_a_template_returns_after_its_last_query_was_removed(engines: EnginePair) -> None:
    documents = [flight(leg(str(value))) for value in (280, 290, 300)]
    engines.match(documents)
    for _ in range(3):
        first = engines.subscribe("//altitude > 285")
        engines.match(documents)
        second = engines.subscribe("//altitude > 295")
        engines.match(documents)
        engines.unsubscribe(first)
        engines.match(documents)
        engines.unsubscribe(second)
        assert engines.count("templates") == 0
        engines.match(documents)
    assert engines.count("recognised") > 20


def test_shared_alternatives_are_removed_one_by_one(engines: EnginePair) -> None:
    documents = [flight(leg(str(value)), flight_id=str(value)) for value in (1, 2, 3)]
    engines.match(documents * 2)
    texts = ["id = 1 or //altitude = 2", "//altitude = 2 or id = 1", "id = 1", "id = 1 or id = 1"]
    texts += [f"id = 1 or //altitude = {n}" for n in range(3, 50)]
    numbers = [engines.subscribe(text) for text in texts for _ in range(2)]
    engines.match(documents)
    for number in numbers[::2]:
        engines.unsubscribe(number)
    engines.match(documents)
    for number in numbers[1::2]:
        engines.match(documents[:1])
        engines.unsubscribe(number)
    assert engines.count("distinct_queries") == engines.count("templates") == 0
    assert engines.matched > 100
