"""Queries and documents made to hurt: bounded, answered rightly, other clients undisturbed."""

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

LARGE = DocumentLimits(max_bytes=8 * 1024 * 1024)


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
def test_queries_built_to_be_slow_are_answered_and_disturb_nobody(
    flight_dtd: Dtd, query: str
) -> None:
    twins = EnginePair(flight_dtd)
    number = twins.subscribe(query)
    plain = [twins.subscribe(f"//altitude > {n}") for n in (0, 2, 5)]
    chance = random.Random(query)
    for size in (0, 1, 3, 12, 40):
        for _ in range(3):
            legs = [
                leg(chance.randrange(6), chance.choice(["1", "x", "7", ""])) for _ in range(size)
            ]
            documents = [flight(*legs), flight(*legs[::-1], flight_id="x")]
            twins.match(documents)
            twins.match(documents[:1])
    assert twins.count("recognised") > 5
    for each in (number, *plain):
        twins.select(each, documents, Liveness.LIVE)


def test_many_repeated_elements_with_a_correlated_predicate_fall_back(flight_dtd: Dtd) -> None:
    twins = EnginePair(flight_dtd, document_limits=LARGE, query_limits=QueryLimits())
    twins.subscribe("//leg[altitude = 7 and speed = 9]")
    for number in range(40):
        twins.subscribe(f"//leg[altitude = {number} and speed > {number}]/speed")
    document = flight(*(leg(n % 97, n % 89) for n in range(10_000)))
    verdicts: list[Any] = []
    assert calls_of(lambda: verdicts.append(twins.switch.match([document] * 2))) < 5_000_000
    twins.match([document])
    twins.match([flight(leg(7, 9))])
    assert twins.count("recognised") == 0
    assert twins.matched > 0


def test_megabytes_in_one_value_are_searched_and_not_kept(flight_dtd: Dtd) -> None:
    twins = EnginePair(flight_dtd, document_limits=LARGE)
    for number in range(40):
        twins.subscribe(f"contains(//remark, 'end{number}')")
        twins.subscribe(f"string-length(normalize-space(//remark)) > {number}000000")
    for size in (100_000, 200_000, 1_000_000, 5_000_000):
        for number in (3, 5, 3):
            text = "so " * (size // 3) + f"end{number}"
            payload = f"<flight><id>1</id><remark>{text}</remark></flight>".encode()
            twins.match([event(payload)])
    assert twins.count("recognised") > 0
    assert twins.matched > 0
    assert twins.count("shape_bytes") < 1_000_000


def test_ten_thousand_attributes_are_refused_as_ever(flight_dtd: Dtd) -> None:
    twins = EnginePair(flight_dtd)
    twins.subscribe("//@*")
    attributes = " ".join(f'a{n}="1"' for n in range(10_000))
    document = event(f"<flight {attributes}><id>1</id></flight>".encode())
    for _ in range(3):
        twins.match([event()])
        (verdict,) = twins.match([document])
        assert isinstance(verdict, Refused)
        assert isinstance(verdict.error, TooLarge)


def test_a_type_whose_shapes_do_not_recur_is_noticed_and_served(flight_dtd: Dtd) -> None:
    chance = random.Random(1)

    def document() -> bytes:
        inside = ["", "<altitude>1</altitude>", "<speed>2</speed>", leg(3)[16:-6]]
        legs = [f"<leg>{chance.choice(inside)}</leg>" for _ in range(20)]
        return flight(*legs, flight_id=str(chance.randrange(99)))

    twins = EnginePair(flight_dtd)
    for query in ("//altitude > 0", "//leg[altitude = 3 and speed = 1]", "count(//speed) > 9"):
        twins.subscribe(query)
    for _ in range(60):
        twins.match([document() for _ in range(20)])
    batch = [document() for _ in range(50)]
    ours = calls_of(lambda: twins.switch.match(batch))
    theirs = calls_of(lambda: twins.reference.match(batch))
    assert ours < 5 * theirs
    assert twins.count("recognised") == 0
    assert twins.count("shapes") <= 32
    (statistics,) = twins.switch._shapes.statistics().values()
    assert statistics.suspensions > 0
    assert statistics.learnt < 200
    # Evaluated no more often than the reference does.
    assert twins.count("evaluations") <= int(twins.reference.statistics()["evaluations"])


@pytest.mark.parametrize(
    ("make", "number"),
    [
        (lambda n: f"//altitude = {n}", 10_000),
        (lambda n: f"//leg[altitude > {n} and speed < {n}]", 5_000),
        (lambda n: f"/flight/id = 'no' or //altitude = {n}", 10_000),
        (lambda n: "/flight/id = 'no'", 5_000),
        (lambda n: f"//altitude/x{n}", 5_000),
        (lambda n: f"starts-with(/flight/id, 'x{n}')", 5_000),
    ],
)
def test_very_many_queries_of_one_client_cost_others_nothing(
    flight_dtd: Dtd, make: Callable[[int], str], number: int
) -> None:
    """What a match takes afterwards is counted in calls, since the machine's speed varies."""
    twins = EnginePair(flight_dtd)
    first = twins.subscribe("//altitude > 5")
    document = flight(leg(900_000, 900_000))
    for _ in range(3):
        twins.match([document])
    numbers = [twins.subscribe(make(each), "a.>") for each in range(number)]
    for _ in range(40):
        # Until all is bound to the shape.
        twins.switch.match([document])
    assert calls_of(lambda: twins.switch.match([document])) < 2_000
    (verdict,) = twins.switch.match([document])
    assert isinstance(verdict, Accepted)
    assert verdict.subscriptions == (first,)
    for each in numbers[:: number // 50]:
        twins.switch.unsubscribe(each)
    assert twins.switch.match([document]) == [verdict]


def test_an_alternative_that_thousands_share_is_not_evaluated_for_each(flight_dtd: Dtd) -> None:
    twins = EnginePair(flight_dtd)
    for number in range(3_000):
        twins.subscribe(f"/flight/id = 'shared' or //altitude = {number}")
    document = flight(leg(7))
    # Parsed first, recognised later.
    for _ in range(40):
        twins.match([document])
    twins.match([flight(leg(8), flight_id="shared")])
    assert twins.matched > 3_000
    assert twins.count("evaluations") < 100


def test_queries_of_thousands_of_templates_that_nothing_rules_out(flight_dtd: Dtd) -> None:
    twins = EnginePair(flight_dtd)
    for number in range(2_200):
        twins.subscribe(f"//leg[altitude + {number} > 1000]")
    for altitude in (1, 500, 900, 2, 600, 901):
        twins.match([flight(leg(altitude)), flight(leg(altitude), leg(3))])
    assert twins.matched > 1_000


def test_answers_are_right_while_queries_are_bound_to_a_shape_little_by_little(
    flight_dtd: Dtd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.matching.engine.plan_cache.VISITS_A_CALL", 25)
    twins = EnginePair(flight_dtd)
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
                numbers.append(twins.subscribe(chance.choice(forms).format(chance.randrange(9))))
        if turn % 15 == 0:
            for _ in range(6):
                twins.unsubscribe(numbers.pop(chance.randrange(len(numbers))))
        documents = [
            flight(*(leg(chance.randrange(9)) for _ in range(size))) for size in (1, 2, 2, 3)
        ]
        twins.match(documents)
        twins.select(chance.choice(numbers), documents, chance.choice(list(Liveness)))
    assert twins.count("recognised") > 300
