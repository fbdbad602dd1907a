"""The partial evaluator against lxml: its decisions hold for every document of the shape."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from broker.matching.index.parameter import Operator
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.evaluator import evaluate_template
from broker.matching.partial.formula import (
    And,
    Atom,
    BooleanAtom,
    Formula,
    Not,
    Or,
    TruthValue,
    is_decided,
    necessary_condition,
)
from broker.matching.partial.template import TemplateInstance, extract_templates
from broker.matching.query.query import parse_query
from tests.matching.partial.slotted_tree import SlottedTree, value_in
from tests.matching.unlimited import ANY_COST

COMPARE: dict[Operator, Any] = {
    Operator.EQUAL: lambda value, literal: value == literal,
    Operator.NOT_EQUAL: lambda value, literal: value != literal,
    Operator.STARTS_WITH: lambda value, literal: value.startswith(literal),
    Operator.CONTAINS: lambda value, literal: literal in value,
    Operator.NUMBER_EQUAL: lambda value, literal: value == literal,
    Operator.NUMBER_NOT_EQUAL: lambda value, literal: value != literal,
    Operator.LESS: lambda value, literal: value < literal,
    Operator.LESS_EQUAL: lambda value, literal: value <= literal,
    Operator.GREATER: lambda value, literal: value > literal,
    Operator.GREATER_EQUAL: lambda value, literal: value >= literal,
}


def holds(formula: Formula, instance: TemplateInstance, values: list[bytes]) -> bool:
    """Evaluate a decided formula naively."""
    match formula:
        case TruthValue():
            assert formula is not TruthValue.UNKNOWN
            return formula is TruthValue.TRUE
        case Atom(parameter=parameter, source=source):
            compare = COMPARE[instance.template.parameters[parameter].operator]
            return bool(compare(value_in(source, values), instance.literals[parameter]))
        case BooleanAtom(source=source):
            return bool(value_in(source, values))
        case Not(part=part):
            return not holds(part, instance, values)
        case And(parts=parts):
            return all(holds(part, instance, values) for part in parts)
        case Or(parts=parts):
            return any(holds(part, instance, values) for part in parts)


def decide(query: str, tree: SlottedTree) -> bool | None:
    """The evaluator's decision; None if it is undecided but possible."""
    found: list[bool | None] = []
    for instance in extract_templates(parse_query(query, {"p": "urn:x"}, ANY_COST)):
        formula = evaluate_template(
            instance.template, EvaluationInput(tree.root, tree.root, {})
        ).formula
        might = holds(necessary_condition(formula), instance, tree.values)
        found.append(might if is_decided(formula) or not might else None)
    if True in found:
        return True
    return None if None in found else False


def oracle(query: str, root: etree._Element) -> bool:
    compiled = etree.XPath(f"boolean({query})", namespaces={"p": "urn:x"}, regexp=False)
    return bool(compiled(root))


VALUES = st.sampled_from(
    ["", " ", "0", "-0", "290", " 290 ", "+5", "1_000", "inf", "1e3", ".5", "UAL1", "é€", "-1.5"]
    + ["123456789012345678901", "0.1000000000000000055", "x y", "290a", "2", "3"]
)


@st.composite
def documents(draw: st.DrawFn) -> etree._Element:
    def element(name: str, depth: int) -> etree._Element:
        made = etree.Element(name)
        for attribute in draw(st.sets(st.sampled_from(["a", "b", "{urn:x}a"]))):
            made.set(attribute, draw(VALUES))
        if depth and draw(st.booleans()):
            made.text = draw(st.sampled_from(["", "", "t", "5"]))
            for _ in range(draw(st.integers(0, 3))):
                child = element(draw(st.sampled_from(["a", "b", "{urn:x}c"])), depth - 1)
                made.append(child)
                child.tail = draw(st.sampled_from(["", "", "7"]))
        else:
            made.text = draw(VALUES)
        return made

    made = element("f", 3)
    return etree.fromstring(etree.tostring(made))


PATHS = st.sampled_from(
    "/f a b //a //b a/b a//b @a //@a //@p:a //p:c .//text() text() * */* //*[@a] //a[b] //a[1] "
    "//a[last()] //a[position()=2] //a[position()>1]/b //a/.. //b/ancestor::a //a/ancestor::*[1] "
    "//b/preceding-sibling::a //b/following-sibling::*[1] //b/preceding::* //b/following::a "
    "(//a)[1] (//a|//b)[2] //a|//b . (/) //a/@*/.. //@b/following::b //@b/preceding::a "
    "//*[self::a] node() //a[@a=@b] //a[.=../b] //a[count(*)=1] //a/node()[2] //a[not(b)] "
    "//p:*/@p:* (//a[@a])[2]/b "
    "//a[@a='290'] //a[@a>2]/b //b[.='UAL1'or@a] //a[b=2][1] (//a[b=2])[1] //a[string(@a)] "
    "//a[number(@a)] //comment() //*[name()='a'] //*[local-name()='c']".split(" ")
)
LITERALS = st.one_of(
    st.sampled_from(["290", "0", "-5", "0.1", "1e3", "5", "123456789012345678901", "2", "1 div 0"]),
    st.sampled_from(["'290'", "'UAL1'", "''", "' '", "'x'", "'2'", "'é'", "0 div 0", "-(1)"]),
)


def _calls(operand: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    functions = (
        "string number boolean not normalize-space string-length floor ceiling round".split()
    )
    return st.one_of(
        st.tuples(st.sampled_from(functions), operand).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(
            st.sampled_from(
                ["contains", "starts-with", "concat", "substring-before", "substring-after"]
                + ["substring"]
            ),
            operand,
            operand,
        ).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        st.tuples(st.sampled_from(["substring", "translate"]), operand, operand, operand).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]}, {t[3]})"
        ),
        st.tuples(
            operand,
            st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "+", "-", "*", "div", "mod"]),
            operand,
        ).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
        st.tuples(operand, st.sampled_from([" and ", " or "]), operand).map("".join),
        st.tuples(st.just("("), operand, st.just(")")).map("".join),
        st.tuples(st.just("//a["), operand, st.just("]")).map("".join),
        st.tuples(st.just("//*["), operand, st.just("]/b")).map("".join),
        st.tuples(
            st.sampled_from(["count(", "sum(", "name(", "namespace-uri("]), PATHS, st.just(")")
        ).map("".join),
    )


QUERIES = st.recursive(PATHS | LITERALS, _calls, max_leaves=6)


@settings(max_examples=700)
@given(root=documents(), query=QUERIES, constants=st.sampled_from(["none", "short", "all"]))
def test_decisions_on_a_shape_agree_with_lxml(
    root: etree._Element, query: str, constants: str
) -> None:
    constant = {
        "none": lambda value: False,
        "short": lambda value: len(value) < 3,
        "all": lambda value: True,
    }[constants]
    decision = decide(query, SlottedTree(root, constant))
    expected = oracle(query, root)
    assert decision is expected or (decision is None), (query, etree.tostring(root))


@pytest.mark.parametrize(
    "query",
    [
        "/f/a = 'UAL1'",
        "//a[@a='x' and @b > 2]/b",
        "starts-with(//a, 'U')",
        "not(//a[@a > 3])",
        "count(//a) > 1 and //a[2] = 5",
        "substring(string(//a/@a), 1, 2) > 23",
        "//a[@a='290'][@b]",
        "string(//a[@a > 2]) = '5'",
    ],
)
def test_ordinary_queries_are_decided(query: str) -> None:
    root = etree.fromstring("<f><a a='290' b='3'>5<b/></a><a a='1'>6</a></f>")
    assert decide(query, SlottedTree(root)) is oracle(query, root)
