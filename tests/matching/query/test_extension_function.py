"""Extension functions have libxml2's values, in bounded time."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree

from broker.errors import QueryTooExpensive
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted
from broker.matching.query.extension_function import (
    MAX_CONCATENATED,
    MAX_LIBXML2_CONCATENATED,
    MAX_LIBXML2_SEARCHED,
    MAX_WORK,
)
from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import parse_query
from broker.matching.xpath_evaluation import compile_query
from tests.matching.conftest import event
from tests.matching.processor_time import at_most

PREFIXES = {"p": "urn:p"}
ANY_SIZE = QueryLimits(max_length=10**6, max_steps=10**5, max_cost=10**30)
EVERYWHERE = StreamPattern.parse(">")
#: Per evaluation. libxml2 takes some seconds for each of the texts below, the extension functions
#: some milliseconds.
MAX_SECONDS = 0.5
DOTS = ",".join("." * MAX_LIBXML2_CONCATENATED)


@attrs.frozen
class Payload:
    """A document in place of a `ParsedEvent`."""

    root: Any

    @property
    def envelope(self) -> Any:
        return self.root

    def document(self) -> Any:
        return self.root


def document(*texts: str) -> Payload:
    """Texts in the elements a, b, c and p:d; empty by default."""
    root = etree.Element("r", nsmap=PREFIXES)
    for name, text in zip(("a", "b", "c", "{urn:p}d"), [*texts, "", "", "", ""], strict=False):
        etree.SubElement(root, name).text = text
    return Payload(root)


def evaluate_query(text: str, payload: Payload) -> bool:
    query = parse_query(text, PREFIXES, ANY_SIZE)
    return compile_query(query).matches(payload)  # type: ignore[arg-type]


def evaluate_with_libxml2(text: str, payload: Payload) -> Any:
    """Evaluate the expression without rewriting."""
    return etree.XPath(text, namespaces=PREFIXES, regexp=False, smart_strings=False)(payload.root)


def count_extension_calls(text: str) -> int:
    return parse_query(text, PREFIXES).compilable.count("Mspaces:")


_LEAVES = [
    "//a",
    "b",
    "//p:d",
    ".",
    "//none",
    "string(//c)",
    "1.5",
    "-0",
    "2",
    "true()",
    "false()",
    "count(//*)",
    "'ab'",
    "''",
    "'contains(., //a)'",
    '"),string("',
]


def _grow(expressions: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def call(name: str, least: int, most: int) -> st.SearchStrategy[str]:
        arguments = st.lists(expressions, min_size=least, max_size=most)
        return arguments.map(lambda each: f"{name} ( {' , '.join(each)})")

    return st.one_of(
        call("contains", 2, 2),
        call("substring-before", 2, 2),
        call("substring-after", 2, 2),
        call("translate", 3, 3),
        call("concat", 2, 3),
        call("concat", MAX_LIBXML2_CONCATENATED - 1, 3 * MAX_LIBXML2_CONCATENATED),
        st.tuples(expressions, expressions).map(
            lambda each: f"concat({MAX_CONCATENATED * f'{each[0]}, '}{each[1]}, {each[0]})"
        ),
        expressions.map(lambda each: f"({each})"),
        expressions.map(lambda each: f"//*[contains(., {each})]"),
        expressions.map(lambda each: f"string-length({each}) - 1"),
    )


_EXPRESSIONS = st.recursive(st.sampled_from(_LEAVES), _grow, max_leaves=60)
_TEXTS = st.lists(st.text("abé\U0001f600, ('", max_size=6), min_size=4, max_size=4)


@settings(max_examples=600)
@given(_EXPRESSIONS, _TEXTS)
@example("substring-before(//a, //b)", ["xay", "a"])
@example("substring-before(//a, //b)", ["xay", "b"])
@example("substring-before(//a, //b)", ["xay", ""])
@example("substring-after(//a, //b)", ["xay", "a"])
@example("substring-after(//a, //b)", ["xay", "b"])
@example("substring-after(//a, //b)", ["xay", ""])
@example("contains(//a, //b)", ["", ""])
@example("contains(//a, //b)", ["a", "ab"])
@example("translate(//a, //b, //c)", ["abcab", "aba", "xyz"])
@example("translate(//a, //b, //c)", ["abcab", "ba", "\U0001f600"])
@example("translate(//a, //b, //c)", ["abcab", "", "xyz"])
def test_values_equal_those_of_libxml2(expression: str, texts: list[str]) -> None:
    payload = document(*texts)
    value = evaluate_with_libxml2(f"string({expression})", payload)
    assert evaluate_query(f'string({expression}) = "{value}"', payload)
    assert evaluate_query(expression, payload) == evaluate_with_libxml2(
        f"boolean({expression})", payload
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("contains(., //b)", 1),
        ("contains(., string(//b))", 1),
        ("contains(., $StreamId)", 1),
        ("contains (contains(., //b), //b)", 2),
        ("1 orcontains(., //b)", 1),
        ("//a[contains(., ../b)]/p:contains", 1),
        ("starts-with(., //b)", 0),
        ("contains(//b, 'x')", 0),
        ("contains(., 7)", 0),
        ("//a[contains(.., 'x')]", 1),
        ("//a[contains(concat(/b, 1), 'x')]", 1),
        ("//a[substring-before(b/ancestor::c, 'x')]", 1),
        ("//a[contains(b/@c, 'x')]", 0),
        ("//a[contains(., 'x')]", 0),
        ("contains(., count(//b))", 0),
        ("'contains(., //b)' = .", 0),
        (f"contains(., '{'x' * MAX_LIBXML2_SEARCHED}')", 0),
        (f"contains(., '{'x' * (MAX_LIBXML2_SEARCHED + 1)}')", 1),
        (f"contains(., '{'x' * MAX_LIBXML2_SEARCHED}') or contains(., 'x')", 1),
        (f"translate(., '{'x' * MAX_LIBXML2_SEARCHED}', //b)", 0),
        ("translate(., //b, '')", 1),
        (f"concat({DOTS})", 0),
        (f"concat({','.join('.' * (MAX_LIBXML2_CONCATENATED + 1))})", 1),
        (f"concat({','.join('1' * (MAX_LIBXML2_CONCATENATED + 1))})", 1),
        (f"concat({','.join('.' * MAX_CONCATENATED)})", 1),
        (f"concat({','.join('1' * (MAX_CONCATENATED + 1))})", 2),
        (f"concat({','.join('.' * 2 * MAX_CONCATENATED)}, 1)", 3),
        (f"concat({f'concat({DOTS}),' * 9}.)", 3),
        (f"concat(., concat({DOTS}))", 1),
        (f"concat(., contains(concat({DOTS}), 'x'))", 0),
        (f"concat(., substring(concat({DOTS}), 1))", 1),
    ],
)
def test_only_expensive_calls_are_rewritten(text: str, number: int) -> None:
    query = parse_query(text, PREFIXES)
    assert count_extension_calls(text) == number
    assert query.uses_extension_functions == (number > 0)
    assert query.text == text
    assert (query.compilable == text) == (number == 0)


@pytest.mark.parametrize(
    "text",
    [
        "contains(" * 62 + "//a" + ", //b)" * 62,
        "concat(" * 62 + DOTS + ", //b)" * 62,
        f"string-length(concat({','.join('1' * 2_000)})) = 2000",
    ],
    ids=lambda text: text[:9],
)
def test_deeply_nested_calls_can_be_rewritten(text: str) -> None:
    payload = document("true", "u")
    assert count_extension_calls(text) > 30
    assert evaluate_query(text, payload) == evaluate_with_libxml2(f"boolean({text})", payload)


def test_calls_and_paths_into_the_envelope_are_rewritten_together(engine: Any) -> None:
    texts = [
        "contains(/Mspaces:Event/Mspaces:StreamId, //remark)",
        "contains(concat(/Mspaces:Event//Mspaces:StreamId, //id), //remark)",
        "/Mspaces:Event[contains(., //remark)]",
        "contains($StreamId, //remark)",
        "substring-after($StreamId, //remark) = '.zbw'",
    ]
    numbers = [engine.subscribe(EVERYWHERE, parse_query(text)) for text in texts]
    for remark, found in (("asdi", True), ("other", False)):
        payload = f"<flight><id>1</id><remark>{remark}</remark></flight>"
        (verdict,) = engine.match([event(payload.encode())])
        # The envelope's own text contains the remark.
        assert verdict.subscriptions == tuple(numbers if found else numbers[2:3])


@pytest.mark.parametrize(
    ("text", "texts", "value"),
    [
        ("contains(//a, //b)", ("a" * 200_000, "a" * 100_000 + "b"), False),
        ("substring-before(//a, //b)", ("a" * 200_000, "a" * 100_000 + "b"), False),
        ("substring-after(//a, //b)", ("a" * 200_000, "a" * 100_000 + "b"), False),
        ("translate(//a, //b, '') = ''", ("b" * 100_000, "a" * 50_000 + "c"), False),
        (f"contains(., '{'a' * 3_900}b')", ("a" * 1_000_000,), False),
        (f"string-length(concat({','.join('.' * 160)})) > 5", ("a" * 100_000,), True),
    ],
    ids=lambda each: each[:20] if isinstance(each, str) else "",
)
def test_long_texts_take_a_bounded_time(text: str, texts: tuple[str, ...], value: bool) -> None:
    payload = document(*texts)
    with at_most(MAX_SECONDS):
        assert evaluate_query(text, payload) is value


@pytest.mark.parametrize(
    "text",
    [
        f"string-length(concat({','.join('.' * 200)})) > 5",
        f"string-length(concat({f'concat({DOTS}),' * 9}.)) > 5",
        "//*[contains(/*, //b)]",
        "//*[translate(/*, //b, '')]",
        "//e[contains(.., 'zz')]",
    ],
)
def test_an_evaluation_with_too_much_work_is_stopped(text: str) -> None:
    payload = document("a" * 800_000, "b")
    for _ in range(200):
        etree.SubElement(payload.root, "e")
    with (
        at_most(MAX_SECONDS),
        pytest.raises(QueryTooExpensive, match="too many characters"),
    ):
        evaluate_query(text, payload)


def test_work_is_counted_for_each_evaluation() -> None:
    payload = document("a" * 1_000_000, "b")
    compiled = compile_query(parse_query("contains(//a, //b)"))
    for _ in range(MAX_WORK // 1_000_000 + 2):
        assert not compiled.matches(payload)  # type: ignore[arg-type]


def test_a_stopped_query_is_suspended_and_others_are_answered(engine: Any) -> None:
    text = f"string-length(concat({','.join('.' * 200)})) > 5"
    greedy = engine.subscribe(EVERYWHERE, parse_query(text))
    modest = engine.subscribe(EVERYWHERE, parse_query("contains(//remark, //id)"))
    remark = "1" * 400_000
    payload = f"<flight><id>1</id><remark>{remark}</remark></flight>"
    (verdict,) = engine.match([event(payload.encode())])
    assert isinstance(verdict, Accepted)
    assert verdict.subscriptions == (modest,)
    ((number, error),) = engine.take_suspended()
    assert number == greedy
    assert "too many characters" in error.text
