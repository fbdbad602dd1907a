"""Hostile queries and documents: bounded work, correct results, no effect on other clients."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from broker.dtd.dtd import Dtd
from broker.errors import TooLarge
from broker.event.envelope import Liveness
from broker.matching.contract import Accepted, Refused
from broker.matching.document_limits import DocumentLimits
from broker.matching.query.limits import QueryLimits
from tests.matching.conftest import event
from tests.matching.engine.engine_pair import EnginePair
from tests.matching.partial.test_bounds import calls_of
from tests.seeds import further_cases

LARGE = DocumentLimits(max_bytes=8 * 1024 * 1024, max_markup=1_000_000)


def flight(*legs: str, flight_id: str = "1") -> bytes:
    return event(f"<flight><id>{flight_id}</id>{''.join(legs)}</flight>".encode())


def leg(altitude: object, speed: object = 1) -> str:
    return f"<leg status='s'><altitude>{altitude}</altitude><speed>{speed}</speed></leg>".replace(
        "'", '"'
    )


SLOW = [
    "//*[//*[@status]]",
    "//leg//*//..//leg/altitude > 5",
    "//leg[999999999999]",
    "//leg[position() = 18446744073709551616]",
    "//leg[-1] or //leg[0.5] or //leg[1 div 0]",
    f"contains(//altitude, '{'7' * 3_000}')",
    f"contains({'concat(' * 20}//id{', //speed)' * 20}, '111')",
    f"translate(//id, '{'abcdefgh1' * 150}', 'x') = 'x'",
    "count(//leg[count(//leg[altitude = 1]) > 1]) > 1",
    "//leg[count(../leg[altitude > 2]) > 3]/speed",
    "//leg[sum(//altitude) > sum(//speed)]",
    "//*[. = //*]",
    "//leg[altitude = //speed][speed = //altitude]",
    "(//leg | //leg | //leg)[last()]/altitude > 1",
    "string(//leg[altitude > 1]) = string(//leg[altitude > 2])",
    "//leg[altitude = 1]/following::leg[altitude = 2]/preceding::leg[altitude = 3]",
    "not(not(not(//leg[not(altitude = 2)])))",
    f"{' or '.join(f'//leg/altitude = {n}' for n in range(60))}",
    f"{' and '.join(f'//leg/altitude != {n}' for n in range(60))}",
    f"//leg{'[altitude > 0]' * 60}",
    f"{'-' * 501}//altitude < 0",
    f"1{' + 1' * 60} = 61",
]


@pytest.mark.parametrize("query", SLOW, ids=lambda query: query[:40])
def test_slow_queries_are_answered_and_do_not_affect_others(flight_dtd: Dtd, query: str) -> None:
    engines = EnginePair(flight_dtd)
    number = engines.subscribe(query)
    plain = [engines.subscribe(f"//altitude > {n}") for n in (0, 2, 5)]
    chance = random.Random(query)
    for size in (0, 1, 3, 12, 40):
        for _ in range(3):
            legs = [
                leg(chance.randrange(6), chance.choice(["1", "x", "7", ""])) for _ in range(size)
            ]
            documents = [flight(*legs), flight(*legs[::-1], flight_id="x")]
            engines.match(documents)
            engines.match(documents[:1])
    assert engines.count("recognised") > 5
    for each in (number, *plain):
        engines.select(each, documents, Liveness.LIVE)


def test_many_repeated_elements_with_a_correlated_predicate_fall_back(flight_dtd: Dtd) -> None:
    engines = EnginePair(flight_dtd, document_limits=LARGE, query_limits=QueryLimits())
    engines.subscribe("//leg[altitude = 7 and speed = 9]")
    for number in range(40):
        engines.subscribe(f"//leg[altitude = {number} and speed > {number}]/speed")
    document = flight(*(leg(n % 97, n % 89) for n in range(10_000)))
    verdicts: list[Any] = []
    assert calls_of(lambda: verdicts.append(engines.switch.match([document] * 2))) < 5_000_000
    engines.match([document])
    engines.match([flight(leg(7, 9))])
    assert engines.count("recognised") == 0
    assert engines.matched > 0


def test_values_of_megabytes_are_searched_and_not_stored(flight_dtd: Dtd) -> None:
    engines = EnginePair(flight_dtd, document_limits=LARGE)
    for number in range(40):
        engines.subscribe(f"contains(//remark, 'end{number}')")
        engines.subscribe(f"string-length(normalize-space(//remark)) > {number}000000")
    for size in (100_000, 200_000, 1_000_000, 5_000_000):
        for number in (3, 5, 3):
            text = "so " * (size // 3) + f"end{number}"
            payload = f"<flight><id>1</id><remark>{text}</remark></flight>".encode()
            engines.match([event(payload)])
    assert engines.count("recognised") > 0
    assert engines.matched > 0
    assert engines.count("shape_bytes") < 1_000_000


def test_ten_thousand_attributes_are_refused(flight_dtd: Dtd) -> None:
    engines = EnginePair(flight_dtd)
    engines.subscribe("//@*")
    attributes = " ".join(f'a{n}="1"' for n in range(10_000))
    document = event(f"<flight {attributes}><id>1</id></flight>".encode())
    for _ in range(3):
        engines.match([event()])
        (verdict,) = engines.match([document])
        assert isinstance(verdict, Refused)
        assert isinstance(verdict.error, TooLarge)


def test_a_type_with_shapes_that_do_not_recur_is_suspended_and_matched(flight_dtd: Dtd) -> None:
    chance = random.Random(1)

    def document() -> bytes:
        inside = ["", "<altitude>1</altitude>", "<speed>2</speed>", leg(3)[16:-6]]
        legs = [f"<leg>{chance.choice(inside)}</leg>" for _ in range(20)]
        return flight(*legs, flight_id=str(chance.randrange(99)))

    engines = EnginePair(flight_dtd)
    for query in ("//altitude > 0", "//leg[altitude = 3 and speed = 1]", "count(//speed) > 9"):
        engines.subscribe(query)
    for _ in range(60):
        engines.match([document() for _ in range(20)])
    batch = [document() for _ in range(50)]
    ours = calls_of(lambda: engines.switch.match(batch))
    theirs = calls_of(lambda: engines.reference.match(batch))
    assert ours < 5 * theirs
    assert engines.count("recognised") == 0
    assert engines.count("shapes") <= 32
    (statistics,) = engines.switch._shapes.types.values()
    assert statistics.suspensions > 0
    assert statistics.learnt < 200
    # No more evaluations than by the reference.
    assert engines.count("evaluations") <= int(engines.reference.statistics()["evaluations"])


@pytest.mark.parametrize(
    ("make", "number"),
    [
        (lambda n: f"//altitude = {n}", 10_000),
        (lambda n: f"//leg[altitude > {n} and speed < {n}]", 5_000),
        *further_cases(
            (lambda n: f"/flight/id = 'no' or //altitude = {n}", 10_000),
            (lambda n: "/flight/id = 'no'", 5_000),
            (lambda n: f"//altitude/x{n}", 5_000),
            (lambda n: f"starts-with(/flight/id, 'x{n}')", 5_000),
        ),
    ],
)
def test_very_many_queries_of_one_client_cost_others_nothing(
    flight_dtd: Dtd, make: Callable[[int], str], number: int
) -> None:
    """Work is measured in calls, since the machine's speed varies."""
    engines = EnginePair(flight_dtd)
    first = engines.subscribe("//altitude > 5")
    document = flight(leg(900_000, 900_000))
    for _ in range(3):
        engines.match([document])
    numbers = [engines.subscribe(make(each), "a.>") for each in range(number)]
    for _ in range(40):
        # Until all queries are bound to the shape.
        engines.switch.match([document])
    assert calls_of(lambda: engines.switch.match([document])) < 2_000
    (verdict,) = engines.switch.match([document])
    assert isinstance(verdict, Accepted)
    assert verdict.subscriptions == (first,)
    for each in numbers[:: number // 50]:
        engines.switch.unsubscribe(each)
    assert engines.switch.match([document]) == [verdict]


def test_an_alternative_that_thousands_share_is_not_evaluated_for_each(flight_dtd: Dtd) -> None:
    engines = EnginePair(flight_dtd)
    for number in range(3_000):
        engines.subscribe(f"/flight/id = 'shared' or //altitude = {number}")
    document = flight(leg(7))
    # Parsed at first, recognised later.
    for _ in range(40):
        engines.match([document])
    engines.match([flight(leg(8), flight_id="shared")])
    assert engines.matched > 3_000
    assert engines.count("evaluations") < 100


def test_thousands_of_templates_that_may_all_match(flight_dtd: Dtd) -> None:
    engines = EnginePair(flight_dtd)
    for number in range(2_200):
        engines.subscribe(f"//leg[altitude + {number} > 1000]")
    for altitude in (1, 500, 900, 2, 600, 901):
        engines.match([flight(leg(altitude)), flight(leg(altitude), leg(3))])
    assert engines.matched > 1_000


def test_results_are_correct_while_queries_are_bound_in_portions(
    flight_dtd: Dtd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.matching.engine.shape_plan.VISITS_A_CALL", 25)
    engines = EnginePair(flight_dtd)
    chance = random.Random(4)
    forms = [
        "//altitude > {}",
        "not(//speed = {})",
        "//leg[{}]",
        "count(//leg) = {}",
        "//*[. = {}]",
    ]
    forms += [f"//leg[altitude + {n} > {{}}]" for n in range(60)]
    numbers: list[int] = []
    for turn in range(150):
        if turn % 10 == 0:
            for _ in range(8):
                numbers.append(engines.subscribe(chance.choice(forms).format(chance.randrange(9))))
        if turn % 15 == 0:
            for _ in range(6):
                engines.unsubscribe(numbers.pop(chance.randrange(len(numbers))))
        documents = [
            flight(*(leg(chance.randrange(9)) for _ in range(size))) for size in (1, 2, 2, 3)
        ]
        engines.match(documents)
        engines.select(chance.choice(numbers), documents, chance.choice(list(Liveness)))
    assert engines.count("recognised") > 300
