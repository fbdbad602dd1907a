"""Very many queries of one template outside the index: exact results, bounded work."""

from __future__ import annotations

import random
from functools import partial

import pytest

from broker.dtd.dtd import Dtd
from broker.event.stream import StreamPattern
from broker.matching.engine import member_scan, parsed_event_matcher
from broker.matching.engine.member_scan import scan_members
from broker.matching.index.member import Member
from broker.matching.index.parameter import Literal, Operator, Parameter
from broker.matching.partial.formula import (
    And,
    Atom,
    BooleanAtom,
    Formula,
    Not,
    Or,
    TruthValue,
    evaluate_formula,
)
from broker.matching.partial.source import Computed, Constant, Source
from broker.matching.query.query import parse_query
from broker.matching.switch import Switch
from tests.matching.conftest import KnownDtds
from tests.matching.engine.engine_pair import EnginePair
from tests.matching.engine.test_hostile import flight, leg
from tests.matching.partial.test_bounds import calls_of

#: The index of none of these is predicted.
FORMS = (
    "not(//leg[altitude > {}])",
    "not(//leg[altitude = {} and speed = 4])",
    "not(//leg[altitude > {0} and altitude < {0}5])",
    "//leg[altitude = {0} or speed = {0}]",
    "//leg[altitude = {} and speed = 4] and count(//leg[altitude > 2]) > 1",
    "boolean(//leg[altitude > {} and speed > 3])",
    "not(contains(//leg/@status, '{}')) and //leg[speed != {}]",
    "not(starts-with(/flight/id, '{}')) or $StreamId = 'x'",
)


def recognised(*legs: str) -> bytes:
    return flight(*legs, flight_id="12")


def unknown(*legs: str) -> bytes:
    """Return a document that has no shape, since it contains a reference."""
    return recognised(*legs).replace(b"<id>", b"<id>&#49;")


@pytest.mark.parametrize("form", FORMS)
def test_results_are_correct_while_an_index_is_filled(
    flight_dtd: Dtd, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(parsed_event_matcher, "MEMBERS_A_DOCUMENT", 9)
    monkeypatch.setattr("broker.matching.engine.shape_plan.VISITS_A_CALL", 120)
    chance = random.Random(form)
    engines = EnginePair(flight_dtd)
    numbers = [engines.subscribe(form.format(n, n)) for n in range(200)]
    engines.subscribe("//leg")
    for turn in range(40):
        legs = [
            leg(chance.randrange(9), chance.randrange(3, 5)) for _ in range(chance.randrange(4))
        ]
        engines.match([chance.choice((recognised, unknown))(*legs)])
        engines.unsubscribe(numbers.pop(chance.randrange(len(numbers))))
        numbers.append(engines.subscribe(form.format(turn + 200, turn)))
    assert engines.matched > 30


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_no_document_waits_for_a_complete_index(
    flight_dtd: Dtd, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    # A tenth of both bounds, for fewer queries.
    monkeypatch.setattr(parsed_event_matcher, "MEMBERS_A_DOCUMENT", 250)
    monkeypatch.setattr("broker.matching.engine.shape_plan.VISITS_A_CALL", 1_000)
    everywhere = StreamPattern.parse(">")
    documents = [unknown(leg(3, 4)), *[recognised(leg(3, 4), leg(3, 4))] * 2]
    longest: list[int] = []
    for queries in (1_500, 3_000):
        # Each is more than the documents index.
        switch = Switch(KnownDtds(flight_dtd), clock=lambda: 0.0)
        for n in range(queries):
            switch.subscribe(everywhere, parse_query(form.format(n, n)))
        longest.append(max(calls_of(partial(switch.match, [each])) for each in documents))
    assert longest[1] < longest[0] * 1.1


# --------------------------------------------------------------------------- comparing all of them

PARAMETERS = [
    Parameter(Operator.GREATER),
    Parameter(Operator.LESS_EQUAL),
    Parameter(Operator.NUMBER_EQUAL),
    Parameter(Operator.NUMBER_NOT_EQUAL),
    Parameter(Operator.STARTS_WITH),
    Parameter(Operator.EQUAL),
]
NUMBERS = (1.0, 2.0, 3.0, float("nan"))
TEXTS = (b"a", b"ab", b"b")


def literal(chance: random.Random, parameter: Parameter) -> Literal:
    return chance.choice(NUMBERS) if parameter.is_numeric else chance.choice(TEXTS)


def formula(chance: random.Random, depth: int) -> Formula:
    kind = chance.randrange(3, 7) if not depth else chance.randrange(7)
    if kind < 2:
        parts = tuple(formula(chance, depth - 1) for _ in range(chance.randrange(2, 5)))
        return And(parts) if kind else Or(parts)
    if kind == 2:
        return Not(formula(chance, depth - 1))
    if kind == 3 and chance.random() < 0.2:
        return chance.choice(
            (TruthValue.TRUE, TruthValue.FALSE, BooleanAtom(truth(chance.random() < 0.5)))
        )
    parameter = chance.randrange(len(PARAMETERS))
    return Atom(parameter, Constant(literal(chance, PARAMETERS[parameter])))


def truth(value: bool) -> Computed:
    return Computed(bool, (Constant(value),))


def value_of(source: Source) -> object:
    if isinstance(source, Computed):
        return source.function(*map(value_of, source.arguments))
    assert isinstance(source, Constant)
    return source.value


def members(chance: random.Random, count: int) -> list[Member]:
    return [
        Member(tuple(literal(chance, parameter) for parameter in PARAMETERS)) for _ in range(count)
    ]


def test_a_scan_equals_single_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_scan, "MAX_COMPARISONS_A_MEMBER", 10_000)
    chance = random.Random(2)
    some = 0
    for _ in range(600):
        chosen, all_members = formula(chance, 3), members(chance, 12)
        expected = [
            each
            for each in all_members
            if evaluate_formula(chosen, PARAMETERS, each.literals, value_of)
        ]
        assert scan_members(chosen, PARAMETERS, all_members, value_of) == expected, chosen
        some += 0 < len(expected) < len(all_members)
    assert some > 200


def test_a_scan_stops_after_too_many_comparisons() -> None:
    all_members = members(random.Random(3), 10)
    for number in (
        1,
        member_scan.MAX_COMPARISONS_A_MEMBER,
        member_scan.MAX_COMPARISONS_A_MEMBER + 1,
        500,
    ):
        atoms = tuple(Atom(4, Constant(b"%d" % n)) for n in range(number))
        found = scan_members(Or(atoms), PARAMETERS, all_members, value_of)
        assert (found is None) == (number > member_scan.MAX_COMPARISONS_A_MEMBER)


@pytest.mark.parametrize("parameter", [0, 1, 2, 5])
def test_several_values_of_one_parameter_are_one_comparison(parameter: int) -> None:
    all_members = members(random.Random(4), 40)
    values = [float(n) if PARAMETERS[parameter].is_numeric else b"%d" % n for n in range(2, 500)]
    atoms = tuple(Atom(parameter, Constant(value)) for value in values)
    for chosen in (Or(atoms), Or(tuple(And((atom, atoms[0])) for atom in atoms[:9]))):
        expected = [
            each
            for each in all_members
            if evaluate_formula(chosen, PARAMETERS, each.literals, value_of)
        ]
        assert scan_members(chosen, PARAMETERS, all_members, value_of) == expected
