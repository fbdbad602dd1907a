"""Results that are the same in every context, and the documents that a template reads."""

from __future__ import annotations

import pytest
from lxml import etree

from broker.matching.partial.document_tree import build_document_tree
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.evaluator import evaluate_template
from broker.matching.partial.formula import UNKNOWN, And, Atom, Formula, Not, Or, is_decided
from broker.matching.partial.source import Constant, Slot, Source
from broker.matching.partial.template import Template, extract_templates
from broker.matching.query.query import parse_query
from broker.matching.shape.tree import Node
from tests.matching.partial.slotted_tree import SlottedTree
from tests.matching.partial.test_evaluator import (
    decide,
    oracle,
)
from tests.matching.unlimited import ANY_COST

XML = "<f x='1'><a b='1' c='2'>3<b>4</b></a><a b='5' c='6'>7<b>8</b></a><b>9</b></f>"
ENVELOPE = "<e><a b='10'/></e>"
VARIABLES: dict[str, Source] = {"StreamId": Slot(100), "TimeStamp": Constant(5.0)}


def template(query: str) -> Template:
    (instance,) = extract_templates(parse_query(query, {"p": "urn:x"}, ANY_COST))
    return instance.template


def subjects(xml: str = XML) -> EvaluationInput:
    payload = SlottedTree(etree.fromstring(xml), lambda value: value == "7").root
    return EvaluationInput(payload, SlottedTree(etree.fromstring(ENVELOPE)).root, VARIABLES)


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
def test_context_dependent_values_are_evaluated_for_each_node(predicate: str, nothing: str) -> None:
    root = etree.fromstring(
        "<f e='a'><a>34<b>4</b></a><a d='2'>4</a><a d='1'/><b>9</b><a>abcd</a><b>4</b></f>"
    )
    for query in (f"//a[{predicate}]", f"//a[{predicate}]/b", f"//*[{predicate}{nothing}]"):
        for tree in (SlottedTree(root), SlottedTree(root, lambda value: True)):
            for place in range(4):
                one = f"count({query}) = {place}"
                decision = decide(one, tree)
                assert decision is oracle(one, root) or decision is None
        assert decision is not None, "constants decide it"


def test_too_many_comparisons_are_reported_for_every_template() -> None:
    together = subjects("<f>" + "<a x='1'>1</a>" * 1_100 + "</f>")
    for rest in ("/f/a[1]/@x = 5", "/f/a[2]/@x = 5"):
        formula, reasons = decided(f"//a[@x > 1 and . < 3] and {rest}", together)
        assert reasons == ("it takes more than 2048 comparisons",)
        assert isinstance(formula, And) and UNKNOWN in formula.parts


def test_the_envelope_tree_is_built_on_first_use() -> None:
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


def test_an_envelope_without_a_tree_is_undecidable() -> None:
    payload = build_document_tree(etree.fromstring(XML))
    assert payload is not None
    without = EvaluationInput(payload, lambda: None, {})
    formula, reasons = decided("/Mspaces:Event/a/@b = 10 and //a/@b = 1", without)
    assert reasons == ("the envelope has no exact document tree",)
    assert not is_decided(formula)
    assert parameters(formula) == {1}


def test_an_invariant_predicate_is_evaluated_once() -> None:
    flat = "<f>" + "<a x='1'>1</a>" * 500 + "</f>"
    result = evaluate_template(template("//a[@x > count(//a)]"), subjects(flat))
    assert is_decided(result.formula) and result.visits < 10_000


def test_substrings_at_equal_positions_are_one_source() -> None:
    on = subjects()
    assert decided("substring(/f, 2, 3) = 'x'", on) == decided("substring(/f, 2, 3) = 'x'", on)
