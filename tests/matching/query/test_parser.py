"""The syntax tree of a query, and errors for invalid queries."""

from __future__ import annotations

import inspect
import sys

import pytest

from broker.errors import BadQuery, QueryTooExpensive
from broker.matching.query.limits import QueryLimits
from broker.matching.query.parser import parse_expression
from broker.matching.query.query import parse_query
from broker.matching.query.tree import (
    Axis,
    Binary,
    Chain,
    Expression,
    Filter,
    FunctionCall,
    KindTest,
    Literal,
    NameTest,
    Negation,
    Number,
    Path,
    PathStart,
    Step,
    Variable,
)

BEGINS = {PathStart.CONTEXT: "", PathStart.DOCUMENT: "/", PathStart.ENVELOPE: "E/"}


def tree(text: str) -> Expression:
    return parse_expression(text, QueryLimits())[0]


def shape(expression: Expression) -> str:
    """The tree in brackets, to show precedence."""
    match expression:
        case Number(value=value):
            return f"{value:g}"
        case Literal(value=value):
            return repr(value)
        case Variable(name=name):
            return f"${name}"
        case FunctionCall(name=name, arguments=arguments):
            return f"{name}({', '.join(map(shape, arguments))})"
        case Negation(operand=operand, signs=signs):
            return f"({'-' * signs} {shape(operand)})"
        case Binary(operator=operator, left=left, right=right):
            return f"({shape(left)} {operator} {shape(right)})"
        case Chain(operator=operator, operands=operands):
            return "(" + f" {operator} ".join(map(shape, operands)) + ")"
        case Filter(primary=primary, predicates=predicates):
            return shape(primary) + "".join(f"[{shape(p)}]" for p in predicates)
        case Path(start=start, steps=steps):
            begin = BEGINS[start] if isinstance(start, PathStart) else f"{shape(start)}/"
            return begin + "/".join(map(step_shape, steps))


def step_shape(step: Step) -> str:
    match step.test:
        case NameTest(prefix=prefix, local=local):
            test = (f"{prefix}:" if prefix else "") + (local or "*")
        case KindTest(kind=kind, target=target):
            test = f"{kind}({target or ''})"
    return f"{step.axis.value}::{test}" + "".join(f"[{shape(p)}]" for p in step.predicates)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 = 2 = 3", "((1 = 2) = 3)"),
        ("1 + 2 * 3 - 4", "((1 + (2 * 3)) - 4)"),
        ("1 < 2 != 3 >= 4", "((1 < 2) != (3 >= 4))"),
        ("1 or 2 and 3 or 4", "(1 or (2 and 3) or 4)"),
        ("(1 or 2) and 3", "((1 or 2) and 3)"),
        ("- 1 * - - 2", "((- 1) * (-- 2))"),
        ("-a | b", "(- (child::a | child::b))"),
        ("8 div 4 mod 3", "((8 div 4) mod 3)"),
        ("* * *", "(child::* * child::*)"),
        ("div div mod", "(child::div div child::mod)"),
        ("and and or", "(child::and and child::or)"),
        ("a-b - c", "(child::a-b - child::c)"),
        ("/", "/"),
        ("/ = /", "(/ = /)"),
        ("//a/@b", "/descendant-or-self::node()/child::a/attribute::b"),
        (".././/p:*", "parent::node()/self::node()/descendant-or-self::node()/child::p:*"),
        ("ancestor-or-self :: a", "ancestor-or-self::a"),
        ("text()|comment()|processing-instruction('t')", None),
        ("(//a)[1]/b", "/descendant-or-self::node()/child::a[1]/child::b"),
        ("a[b][2]", "child::a[child::b][2]"),
        ("id('x')/a", "id('x')/child::a"),
        ('$StreamId = "it\'s"', '($StreamId = "it\'s")'),
        ("concat('a', 1, text)", "concat('a', 1, child::text)"),
        ("/Mspaces:Event/a", "E/child::Mspaces:Event/child::a"),
        ("//Mspaces:Event", "/descendant-or-self::node()/child::Mspaces:Event"),
        ("/Mspaces:*", "/child::Mspaces:*"),
        (".5 + 1. + 1.5", "((0.5 + 1) + 1.5)"),
    ],
)
def test_the_tree_has_the_structure_of_xpath(text: str, expected: str | None) -> None:
    if expected is None:
        expected = "(child::text() | child::comment() | child::processing-instruction(t))"
    assert shape(tree(text)) == expected


def test_nodes_have_positions() -> None:
    path = tree("  /a/b[ c = 'd' ]")
    assert isinstance(path, Path)
    assert (path.position, path.steps[1].position, path.steps[1].end) == (2, 5, 6)
    (predicate,) = path.steps[1].predicates
    assert isinstance(predicate, Binary)
    assert (predicate.position, predicate.right.position) == (10, 12)
    assert path.steps[1].axis is Axis.CHILD


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "expected an operand"),
        ("   ", 4, "expected an operand, found the end"),
        ("a b", 3, "expected an operator"),
        ("a =", 4, "expected an operand"),
        ("= a", 1, "expected an operand, found an operator '='"),
        ("a/", 3, "expected a step"),
        ("a[1", 4, "expected ']'"),
        ("(a", 3, "expected ')'"),
        ("a)", 2, "found ')'"),
        ("'abc", 1, "no closing '"),
        ("a & b", 3, "'&' can not stand here"),
        ("a # b", 3, "'#' can not stand here"),
        ("a ! b", 3, "'!' can not stand here"),
        ("x::a", 1, "no axis 'x'"),
        ("$ a", 1, "must follow '$'"),
        ("1 + $Stream", 5, "there are $StreamId"),
        ("1 + foo(1)", 5, "no function foo()"),
        ("p:foo(1)", 1, "no function p:foo()"),
        ("matches(a, 'x')", 1, "in XPath 1.0"),
        ("re:test(a, 'x')", 1, "no function"),
        ("document('file:///etc/passwd')", 1, "no function"),
        ("contains(a)", 1, "takes 2 arguments, not 1"),
        ("true(1)", 1, "takes no argument, not 1"),
        ("concat(a)", 1, "takes 2 or more arguments, not 1"),
        ("substring(a)", 1, "takes 2 to 3 arguments, not 1"),
        ("a and count(1)", 7, "must be a node-set, this is a number"),
        ("'x' | a", 5, "must be a node-set, this is a string"),
        ("a | true()", 5, "must be a node-set, this is a boolean"),
        ("(1)[1]", 1, "must be a node-set"),
        ("$StreamId/a", 1, "must be a node-set"),
        ("last()", 1, "in a predicate only"),
        ("a[position() = last()] = position()", 26, "in a predicate only"),
        ("a/contains(b, 'c')", 3, "can not be a step"),
        ("true(", 6, "expected an operand, found the end"),
        ("not(,)", 5, "expected an operand, found ','"),
        ("@@a", 2, "expected a step"),
        ("child::", 8, "expected a step"),
        (".[1]", 2, "expected an operator or the end"),
    ],
)
def test_an_invalid_query_is_rejected_with_position_and_reason(
    text: str, column: int, words: str
) -> None:
    with pytest.raises(BadQuery) as caught:
        tree(text)
    assert words in caught.value.text
    assert (caught.value.line, caught.value.column) == (1, column)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 4096,
        "(" * 2000 + "1" + ")" * 2000,
        "a[" * 1300 + "b" + "]" * 1300,
        "not(" * 800 + "b" + ")" * 800,
        "/".join("a" * 1000),
        "//" * 2000,
        "1" + "+1" * 2000,
        "1" + "=1" * 2000,
        "a[" * 64 + "b" + "[1]" * 300,
    ],
)
def test_a_query_beyond_the_limits_is_rejected_without_recursion(text: str) -> None:
    with pytest.raises(BadQuery):
        tree(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 64 + "1" + ")" * 64,
        "a[" * 64 + "b" + "]" * 64,
        "a[not(" * 32 + "b" + ")]" * 32,
        "(1+1+" * 42 + "1" + ")" * 42,
        "1" + "+1" * 129,
        "((-a)[-1+" * 21 + "b" + "])" * 21,
    ],
)
def test_the_deepest_query_does_not_exhaust_the_stack(text: str) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 700)
    try:
        parse_query(text)
    except QueryTooExpensive as error:
        assert "would visit" in error.text
    except BadQuery as error:
        assert "must be a node-set" in error.text
    finally:
        sys.setrecursionlimit(limit)


def test_long_chains_of_and_or_and_union_are_one_node() -> None:
    for operator in (" and ", " or ", "|"):
        chain = tree(operator.join("abc" * 70))
        assert isinstance(chain, Chain)
        assert len(chain.operands) == 210
    assert isinstance(tree("-" * 4000 + "1"), Negation)


def test_errors_name_the_exceeded_limit_and_the_position() -> None:
    with pytest.raises(QueryTooExpensive, match="nested more than 2 deep") as caught:
        parse_expression("((1) + (((2))))", QueryLimits(max_nesting=2))
    assert caught.value.column == 9
    with pytest.raises(QueryTooExpensive, match="more than 3 location steps") as caught:
        parse_expression("a/b[c]/d", QueryLimits(max_steps=3))
    assert caught.value.column == 8
    with pytest.raises(QueryTooExpensive, match="more than 1 operators") as caught:
        parse_expression("1 = 2 + 3 = 4 or 5 = 6", QueryLimits(max_operators=1))
    assert caught.value.column == 11
