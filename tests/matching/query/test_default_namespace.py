"""A default namespace for element names without prefix, as in XPath 2.0."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from broker.dtd.reference import DtdReference
from broker.errors import BadQuery, QueryTooExpensive
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted
from broker.matching.covering.stream_interest import CoverNode, StreamInterest
from broker.matching.payload_key import compile_key
from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import parse_query
from broker.matching.undescribed import without_dtds
from broker.streams.queue_policy import parse_queue_policy
from tests.matching.conftest import ENGINES, KnownDtds, event
from tests.matching.unlimited import ANY_COST

URI = "urn:one"
_NAMES = st.sampled_from(["a", "b", "c", "div", "or"])
_AXES = st.sampled_from(
    "ancestor:: ancestor-or-self:: child:: descendant:: descendant-or-self:: following:: "
    "following-sibling:: parent:: preceding:: preceding-sibling:: self::".split()
    + ["", "", ""]
)


@st.composite
def payloads(draw: st.DrawFn, depth: int = 3) -> str:
    """Draw an element whose default namespace may differ from that around it."""
    name = draw(st.sampled_from(["a", "b", "c", "div", "or", "o:a", "o:b"]))
    start = name + draw(st.sampled_from(["", "", f' xmlns="{URI}"', ' xmlns="urn:two"']))
    start += ' xmlns:o="urn:one"' if name.startswith("o:") else ""
    start += draw(st.sampled_from(["", ' a="1"', ' b="x" a=""']))
    inner = draw(st.lists(payloads(depth - 1), max_size=3)) if depth else []
    return f"<{start}>{draw(st.sampled_from(['', '1', 'x']))}{''.join(inner)}</{name}>"


@st.composite
def steps(draw: st.DrawFn) -> str:
    """Draw a step; `~` marks where an explicit prefix belongs."""
    kind = draw(st.integers(0, 7))
    if kind == 0:
        return draw(st.sampled_from(["@a", "attribute::b", "@*", "*", "text()", "self::node()"]))
    if kind == 1:
        return "o:" + draw(_NAMES)
    return draw(_AXES) + "~" + draw(_NAMES)


@st.composite
def paths(draw: st.DrawFn, depth: int = 1) -> str:
    text = draw(st.sampled_from(["/", "//", "", ".//"]))
    for number in range(draw(st.integers(1, 3))):
        text += (draw(st.sampled_from(["/", "//"])) if number else "") + draw(steps())
        if depth and draw(st.booleans()):
            text += f"[{draw(expressions(depth - 1))}]"
    return text


@st.composite
def expressions(draw: st.DrawFn, depth: int = 1) -> str:
    first, second = draw(paths(depth)), draw(paths(depth))
    sign = draw(st.sampled_from([" or ", " and ", " = ", "|", " div ", " - ", "<"]))
    forms = [first, f"{first}{sign}{second}", f"not({first})", f"count({first}) > 1"]
    return draw(st.sampled_from([*forms, f"{first} = 'a'", f"name({first}) = 'a'"]))


@settings(max_examples=150)
@given(documents=st.lists(payloads(), min_size=1, max_size=3), drawn=expressions())
def test_the_answers_are_those_of_lxml_with_a_written_prefix(
    documents: list[str], drawn: str
) -> None:
    query = parse_query(drawn.replace("~", ""), {"": URI, "o": URI}, ANY_COST)
    explicit = drawn.replace("~", "one:")
    assert query.written == drawn.replace("~", "")
    oracle = etree.XPath(f"boolean({explicit})", namespaces={"one": URI, "o": URI}, regexp=False)
    expected = [bool(oracle(etree.fromstring(document))) for document in documents]
    variants = without_dtds([DtdReference("t", "1")])
    for make in ENGINES.values():
        engine = make(KnownDtds(), clock=lambda: 0.0)
        engine.subscribe(StreamPattern.parse(">"), query)
        events = [event(each.encode(), type_name="t", version="1") for each in documents]
        verdicts: Any = engine.match(events, variants=variants)
        assert [isinstance(v, Accepted) and bool(v.subscriptions) for v in verdicts] == expected


def test_only_element_names_without_prefix_are_bound() -> None:
    query = parse_query("//a[@b]/*/child::c | self::x:d/@e", {"": "urn:d", "x": "urn:x"})
    assert query.text == "//d:a[@b]/*/child::d:c | self::x:d/@e"
    assert query.namespaces == (("d", "urn:d"), ("x", "urn:x"))
    assert query == parse_query(query.text, dict(query.namespaces))
    assert parse_query("$ClientId = 'a'", {"": "urn:d"}) == parse_query("$ClientId = 'a'")


def test_the_prefix_is_one_that_the_query_does_not_bind() -> None:
    query = parse_query("//a/d:b", {"": "urn:x", "d": "urn:d", "d1": "urn:d"})
    assert query.text == "//d2:a/d:b"
    with pytest.raises(BadQuery, match="the prefix 'd' is not bound"):
        parse_query("//a/d:b", {"": "urn:x"})


def test_queries_with_different_defaults_are_not_equal_and_do_not_cover_each_other() -> None:
    texts = [{"": "urn:1"}, {"": "urn:2"}, {}]
    queries = [parse_query("//a[b > 3]", each) for each in texts]
    assert len(set(queries)) == 3
    nodes = [CoverNode(StreamInterest(StreamPattern.parse(">"), query)) for query in queries]
    covered = [
        (i, j) for i, one in enumerate(nodes) for j, two in enumerate(nodes) if one.covers(two)
    ]
    assert covered == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("//a[b >", "expected an operand, found the end of the query", 8),
        ("//a/v:b", "the prefix 'v' is not bound: bind it in the subscription", 5),
        ("/a/b[nosuch()]", "there is no function nosuch() in XPath 1.0", 6),
    ],
)
def test_a_refusal_has_the_column_of_the_text_as_written(
    text: str, message: str, column: int
) -> None:
    with pytest.raises(BadQuery) as caught:
        parse_query(text, {"": URI})
    assert (caught.value.text, caught.value.column) == (message, column)


def test_the_costliest_step_is_shown_as_written() -> None:
    query, limits = "/a[/b[*[preceding::c]]]", QueryLimits(max_cost=1000)
    with pytest.raises(QueryTooExpensive, match="step is 'preceding::c'") as caught:
        parse_query(query, {"": URI}, limits)
    with pytest.raises(QueryTooExpensive) as plain:
        parse_query(query, limits=limits)
    assert str(caught.value) == str(plain.value)


def test_the_prefixes_count_as_characters() -> None:
    with pytest.raises(QueryTooExpensive, match="16 characters with a prefix for each name"):
        parse_query("/a/b/a/b", {"": URI}, QueryLimits(max_length=11))


@pytest.mark.parametrize("uri", ["", "urn:\x00", "u" * 20_000])
def test_a_default_namespace_needs_a_uri(uri: str) -> None:
    with pytest.raises(BadQuery, match="namespace"):
        parse_query("//a", {"": uri})


def test_keys_of_events_may_have_a_default_namespace() -> None:
    payload = f'<a xmlns="{URI}" id="7"><b>x</b></a>'.encode()
    assert compile_key("/a/b", {"": URI})(payload) == "x"
    policy: Any = parse_queue_policy("coalesce:/a/@id", {"": URI})
    assert (policy.path, policy.namespaces) == ("/d:a/@id", (("d", URI),))
