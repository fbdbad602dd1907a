from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.dtd.content import Content, parse_model
from broker.dtd.dtd import Dtd


@pytest.mark.parametrize(
    ("model", "children", "required"),
    [
        ("(a,b?,c*,d+)", "abcd", "ad"),
        ("(a|b)", "ab", ""),
        ("(a|b)*", "ab", ""),
        ("((a,b)|(a,c))", "abc", "a"),
        ("((a,b),(c|d)+,((e,f)?|g))", "abcdefg", "ab"),
        ("(a,(b,(c,d)*))+", "abcd", "ab"),
        ("(a)?", "a", ""),
    ],
)
def test_children_and_those_that_are_always_there(model: str, children: str, required: str) -> None:
    content = parse_model(model)
    assert content.children == frozenset(children)
    assert content.required == frozenset(required)
    assert not (content.has_text or content.any or content.empty)


def test_one_of_several_is_known_to_be_there() -> None:
    assert frozenset("bc") in parse_model("(a,(b|c))").one_of
    (either,) = parse_model("((b,x)|d)").one_of
    assert either in (frozenset("bd"), frozenset("xd"))
    assert parse_model("(a?,(b|c?))").one_of == frozenset()


def test_the_other_kinds_of_content() -> None:
    assert parse_model("EMPTY") == Content(empty=True)
    assert parse_model("ANY") == Content(any=True, has_text=True)
    assert parse_model("(#PCDATA)") == Content(has_text=True)
    assert parse_model("(#PCDATA|a|p:b)*") == Content(frozenset({"a", "p:b"}), has_text=True)


def test_a_dtd_knows_the_content_of_its_elements_with_prefixes(
    shipped: Callable[[str, str], Dtd],
) -> None:
    flight_1_0 = shipped("flight", "1.0")
    event = flight_1_0.elements["Mspaces:Event"]
    assert event.children >= {"Mspaces:StreamId", "flight"}
    assert "flight" in event.content.required
    assert "Mspaces:Summary" not in event.content.required
    assert flight_1_0.elements["flightleg"].children == {"speed", "altitude", "coordinate"}
    assert flight_1_0.elements["speed"].has_text and not flight_1_0.elements["flight"].has_text
