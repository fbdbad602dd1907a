"""What templates share when they are evaluated on the same trees changes no decision."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree

from broker.matching.partial import evaluation_cache
from broker.matching.partial.document_tree import build_document_tree
from broker.matching.partial.evaluation_input import EvaluationInput, EvaluationResult
from broker.matching.partial.evaluator import MAX_VISITS, evaluate_template
from broker.matching.partial.formula import UNKNOWN, And, Atom, Formula, Not, Or, is_decided
from broker.matching.partial.source import Constant, Slot
from broker.matching.partial.template import Template, extract_templates
from broker.matching.query.query import parse_query
from broker.matching.shape.tree import Node
from tests.matching.partial.slotted_tree import Slotted
from tests.matching.partial.test_evaluator import (
    LITERALS,
    QUERIES,
    documents,
    oracle,
    verdict,
)
from tests.matching.unlimited import ANY_COST

XML = "<f x='1'><a b='1' c='2'>3<b>4</b></a><a b='5' c='6'>7<b>8</b></a><b>9</b></f>"
ENVELOPE = "<e><a b='10'/></e>"
VARIABLES = {"StreamId": Slot(100), "TimeStamp": Constant(5.0)}


def flat(size: int) -> str:
    return "<f>" + "<a x='1'>1</a>" * size + "</f>"


def template(query: str) -> Template:
    (instance,) = extract_templates(parse_query(query, {"p": "urn:x"}, ANY_COST))
    return instance.template


def subjects(xml: str = XML) -> EvaluationInput:
    payload = Slotted(etree.fromstring(xml), lambda value: value == "7").root
    return EvaluationInput(payload, Slotted(etree.fromstring(ENVELOPE)).root, VARIABLES)


def decided(query: str, on: EvaluationInput) -> tuple[Formula, tuple[str, ...]]:
    decision = evaluate_template(template(query), on)
    return decision.formula, decision.reasons


def parameters(formula: Formula) -> set[int]:
    match formula:
        case Atom(parameter=parameter):
            return {parameter}
        case Not(part=part):
            return parameters(part)
        case And(parts=parts) | Or(parts=parts):
            return {number for part in parts for number in parameters(part)}
        case _:
            return set()


def assert_unshared(queries: Iterable[str], xml: str = XML) -> None:
    """Together they are what each is alone, in this order and when all is known already."""
    queries = list(queries)
    alone = [decided(query, subjects(xml)) for query in queries]
    together = subjects(xml)
    for _ in range(2):
        assert [decided(query, together) for query in queries] == alone


@pytest.mark.parametrize(
    "queries",
    [
        # Equal but for a literal that is no hole, or one that is empty.
        ("//a[@b = 'x'] and count(//a) + 1 > 2", "//a[@b = 'x'] and count(//a) + 2 > 2"),
        ("//a[@b = 'x']/@c = 'y'", "//a[@b = '']/@c = 'y'", "//a[@b = 'x']/@c = ''"),
        ("//a[2]/@b = 1", "//a[1]/@b = 1", "(//a)[1]/@b = 1", "//a[last()]/@b = 1"),
        ("//a[@b > 1]", "//a[@b >= 1]", "//a[@b != 1]", "//a[@b = '1']", "//a[@b = 1]"),
        # Holes elsewhere.
        ("//a[@b > 1] and //b > 2", "//b > 2 and //a[@b > 1]", "//b > 2", "//a[@b > 1]"),
        ("//a[//b > 1]/@c = 2", "//a[@c = 3][//b > 1]/@c = 2", "//a[//b > 1 and @c = 3]"),
        # The same words for other things.
        ("a/@b = 1", "//a[a/@b = 1]", "//a[b = 1]", "b = 1", "//b = 1", "/f/b = 1", "/f/a/b = 1"),
        ("/f/a/@b = 1", "/Mspaces:Event/a/@b = 1", "//a/@b = 1", "/*/a/@b = 1"),
        ("$StreamId = 'x'", "//a[$StreamId = 'x']", "//a[@b = $StreamId]", "$TimeStamp > //a"),
        ("string(//a) = 'x'", "//a = 'x'", "number(//a) = 1", "//a = 1", "count(//a) = 1", "//a"),
        ("string() = 'x'", "//a[string() = 'x']", "//a[name() = 'a']", "name() = 'a'"),
        ("//a[number() > 3]", "number() > 3", "//a[string-length() > 3]", "string-length() > 3"),
        # Positions are of the node.
        ("//a[count(//a)]/@b = 1", "//*[count(//a)]/@b = 1", "/f/a[count(/f/a)]/@b = 1"),
        ("//a[count(//a) = position()]/@b = 1", "//a[count(//a) = 2]/@b = 1"),
        ("//*[count(//b) = last()]", "//a[//b = last()]/@b = 3", "//a[lang('en')]"),
        # What is not decided.
        ("count(//a[@b > 1]) > 1", "count(//a[@b > 1]) > 2 and @x = 1", "(//a[@b > 1])[2]/@c = 3"),
        ("//a/namespace::*", "//a/namespace::* and @x = 1", "not(//a/namespace::*)", "//a/@b = 1"),
        ("//a[id('x')]/@b = 1", "id('x')", "//a[count(id('x')) = 1]"),
    ],
)
def test_equal_words_that_mean_different_things_stay_apart(queries: tuple[str, ...]) -> None:
    assert_unshared(queries)
    assert_unshared(reversed(queries))


@pytest.mark.parametrize("nothing", ["", " and //none", " or //b"])
@pytest.mark.parametrize(
    "predicate",
    [
        "count(//a)",
        "count(//a) = position()",
        "count(//a) - 1 = position()",
        "count(//b) = last()",
        "count(//a) = last()",
        "count(//b) = string-length()",
        "count(//b) = string-length(.)",
        "count(//a) + 1 = number()",
        "sum(//b) = number()",
        "//b = string()",
        "//b = normalize-space()",
        "concat(//b, 'x') = concat(name(), 'x')",
        "starts-with(//@e, local-name())",
        "//@e = name()",
        "//@e = name(.)",
        "not(//@d = @d)",
        "boolean(//@d = @d)",
        "//@d = (@d | @c)",
        "(//@d | @d)[2] = 2 + 0",
        "(//a)[2] = .",
        "(//a)[@d]/@d = @d",
        "-count(//a) = -position()",
        "//@e = concat('b', '') or @d",
        "true() = //a",
    ],
)
def test_what_depends_on_the_node_is_found_for_each(predicate: str, nothing: str) -> None:
    root = etree.fromstring(
        "<f e='a'><a>34<b>4</b></a><a d='2'>4</a><a d='1'/><b>9</b><a>abcd</a><b>4</b></f>"
    )
    for query in (f"//a[{predicate}]", f"//a[{predicate}]/b", f"//*[{predicate}{nothing}]"):
        for tree in (Slotted(root), Slotted(root, lambda value: True)):
            for place in range(4):
                one = f"count({query}) = {place}"
                said = verdict(one, tree)
                assert said is oracle(one, root) or said is None
        assert said is not None, "constants decide it"


@settings(max_examples=300, deadline=None)
@given(
    root=documents(),
    parts=st.lists(QUERIES, min_size=2, max_size=5),
    more=st.lists(st.tuples(QUERIES, st.sampled_from([" and ", " or ", " = "])), max_size=3),
    literal=LITERALS,
)
@example(
    etree.fromstring(XML), ["/f", "//a[//*[//*[//b/preceding-sibling::a]/b]/b]"], [], "290"
).via("the estimate of the last query was above the limit that this test had set")
def test_any_queries_are_decided_together_as_alone(
    root: etree._Element, parts: list[str], more: list[tuple[str, str]], literal: str
) -> None:
    queries = [f"boolean({part})" for part in parts]
    queries += [f"({part}){operator}({parts[0]})" for part, operator in more]
    queries += [f"{parts[0]} = {literal}", f"//a[{parts[0]}] and //b[{parts[1]}]"]
    # An `or` outside makes several templates.
    assert_unshared([f"true() and ({query})" for query in queries], etree.tostring(root).decode())


def test_reasons_are_told_of_every_template_that_has_them() -> None:
    together = subjects()
    for rest in ("@x = 1", "@x = 2", "//a[3]"):
        _, reasons = decided(f"count(//a[@b > 1]) > 1 and {rest}", together)
        assert reasons == ("which nodes count() takes depends on values",)
    for place in (1, 2):
        _, reasons = decided(f"(//a[@b > 1])[{place}]/@c = 3", together)
        assert reasons == ("the position of a node depends on values",)


def test_holes_are_numbered_as_the_template_has_them() -> None:
    together = subjects()
    shared = "//a[@b > 1 and @c < 2]"
    assert parameters(decided(shared, together)[0]) == {0, 1}
    assert parameters(decided(f"@x = 1 and {shared}", together)[0]) == {0, 1, 2}
    assert parameters(decided(f"{shared} and @x = 1", together)[0]) == {0, 1, 2}


def test_a_conjunct_that_is_known_costs_next_to_nothing() -> None:
    together = subjects(flat(500))
    first = evaluate_template(template("//a[@x > 1 and . < 3] and count(//b) > 1"), together)
    second = evaluate_template(template("//a[@x > 7 and . < 9] and count(//b) > 2"), together)
    assert first.visits > 3_000
    # To make a part of another formula is counted.
    assert second.visits < 300


DEAR = "//a[. > 1 and @x > 2 and @x < 5]"


def test_what_was_too_dear_for_one_template_is_not_for_another() -> None:
    """The first part of two has half of the budget, and the only one has all of it."""

    def alone(query: str) -> EvaluationResult:
        return evaluate_template(template(query), subjects(xml))

    xml = flat(1_000)
    pair = f"{DEAR} and /f/a[1]/@x = 5"
    single = alone(DEAR)
    assert MAX_VISITS // 2 < single.visits < MAX_VISITS
    too_dear = "evaluating it on a shape takes too many steps"
    assert alone(pair).reasons == (too_dear,)
    together = subjects(xml)
    assert evaluate_template(template(pair), together).reasons == (too_dear,)
    assert evaluate_template(template(DEAR), together).reasons == single.reasons
    assert evaluate_template(template(DEAR), together).formula == single.formula


def test_what_takes_too_many_comparisons_takes_them_in_every_template() -> None:
    together = subjects(flat(1_100))
    for rest in ("/f/a[1]/@x = 5", "/f/a[2]/@x = 5"):
        formula, reasons = decided(f"//a[@x > 1 and . < 3] and {rest}", together)
        assert reasons == ("it takes more than 2048 comparisons",)
        assert isinstance(formula, And) and UNKNOWN in formula.parts


def test_what_is_shared_is_bounded_and_can_be_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = [f"//a[@b > 1]/@c = 2 and count(//b) = {n} and //*[. = 'x']" for n in range(30)]
    monkeypatch.setattr(evaluation_cache, "MAX_CACHED_WORK", 40)
    assert_unshared(queries)
    together = subjects()
    for query in queries:
        decided(query, together)
        assert len(together.cache.numbers) <= 40
    together.clear_caches()
    assert not together.cache.numbers
    assert not together.cache.string_values
    assert_unshared(queries)


def test_the_envelope_is_made_when_a_query_asks_for_it() -> None:
    asked = 0

    def envelope() -> Node | None:
        nonlocal asked
        asked += 1
        return build_document_tree(etree.fromstring(ENVELOPE))

    payload = build_document_tree(etree.fromstring(XML))
    assert payload is not None
    lazy = EvaluationInput(payload, envelope, {})
    assert is_decided(decided("//a/@b = 1", lazy)[0])
    assert asked == 0
    query = "/Mspaces:Event/a/@b = 10 or /Mspaces:Event/node()"
    for part in query.split(" or "):
        assert decided(part, lazy) == decided(part, EvaluationInput(payload, lazy.envelope, {}))
    assert asked == 1


def test_an_envelope_that_has_no_tree_is_not_decided() -> None:
    payload = build_document_tree(etree.fromstring(XML))
    assert payload is not None
    without = EvaluationInput(payload, lambda: None, {})
    formula, reasons = decided("/Mspaces:Event/a/@b = 10 and //a/@b = 1", without)
    assert reasons == ("the envelope has what trees of documents do not have",)
    assert not is_decided(formula)
    assert parameters(formula) == {1}


def test_substrings_at_the_same_places_are_one_source() -> None:
    assert_unshared(["substring(/f, 2, 3) = 'x'"])
    # A NaN is not found again by equality.
    assert_unshared(["boolean(substring(/f, a, a + a))"], "<f><a/><a> </a></f>")
