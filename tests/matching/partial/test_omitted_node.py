"""Documents with comments and instructions: what is decided without them is what lxml says."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from broker.dtd.dtd import Dtd
from broker.matching.partial.document_tree import build_document_tree
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.evaluator import evaluate_template
from broker.matching.partial.formula import is_decided, necessary_condition
from broker.matching.partial.template import extract_templates
from broker.matching.query.query import parse_query
from tests.matching.conftest import event
from tests.matching.partial.test_evaluator import (
    LITERALS,
    PATHS,
    _calls,
    documents,
    holds,
    oracle,
)
from tests.matching.switching.twins import Twins
from tests.matching.unlimited import ANY_COST

REMARKS = ("<!---->", "<!--290-->", "<?a?>", "<?p 5?>")


def said(query: str, root: etree._Element) -> bool | None:
    """What the evaluator says of a parsed document; None if it is not decided, though possible."""
    tree = build_document_tree(root)
    assert tree is not None
    subjects = EvaluationInput(tree, tree, {})
    found: list[bool | None] = []
    for instance in extract_templates(parse_query(query, {"p": "urn:x"}, ANY_COST)):
        formula = evaluate_template(instance.template, subjects).formula
        might = holds(necessary_condition(formula), instance, [])
        found.append(might if is_decided(formula) or not might else None)
    if True in found:
        return True
    return None if None in found else False


def with_remarks(xml: str, remarks: Sequence[tuple[int, str]]) -> etree._Element:
    """The document with each remark at a place: around the element, between and in texts."""
    places = [0, *(m.start() for m in re.finditer(r"(?<=>)|[^<>](?=[^<>]*<)", xml))]
    for place, remark in sorted(
        ((places[number % len(places)], remark) for number, remark in remarks), reverse=True
    ):
        xml = xml[:place] + remark + xml[place:]
    return etree.fromstring(xml)


AXES = st.sampled_from(
    "child descendant descendant-or-self following following-sibling preceding preceding-sibling "
    "self parent ancestor ancestor-or-self attribute".split(" ")
)
TESTS = st.sampled_from(
    "node() node() node() text() comment() processing-instruction() processing-instruction('p') "
    "* a b".split(" ")
)
PREDICATES = st.sampled_from(
    ["", "", "", "[1]", "[2]", "[last()]", "[position() > 1]", "[. = 5]", "[self::a]", "[text()]"]
    + ["[node()]", "[comment()]", "[@a]", "[not(following-sibling::node())]"]
)
STEPS = st.tuples(AXES, TESTS, PREDICATES).map(lambda t: f"{t[0]}::{t[1]}{t[2]}") | st.sampled_from(
    [".", "..", "a", "b[1]", "text()[2]", "@a", "node()", "comment()"]
)
WALKS = st.tuples(
    st.sampled_from(["", "/", "//", ".//", "//a/", "//a//", "(//a)[1]/", "../"]),
    st.lists(st.tuples(STEPS, st.sampled_from(["/", "//"])).map(lambda t: t[0] + t[1]), max_size=2),
    STEPS,
).map(lambda t: t[0] + "".join(t[1]) + t[2])
QUERIES = st.recursive(WALKS | WALKS | PATHS | LITERALS, _calls, max_leaves=4)


@settings(max_examples=800, deadline=None)
@given(
    root=documents(),
    remarks=st.lists(
        st.tuples(st.integers(0, 60), st.sampled_from(REMARKS)), min_size=1, max_size=4
    ),
    query=QUERIES,
)
def test_what_is_decided_of_a_document_with_remarks_is_what_lxml_says(
    root: etree._Element, remarks: list[tuple[int, str]], query: str
) -> None:
    document = with_remarks(etree.tostring(root, encoding="unicode"), remarks)
    answer, expected = said(query, document), oracle(query, document)
    assert answer is expected or answer is None, (query, etree.tostring(document.getroottree()))


XML = "<f>1<!--x-->2<a b='3'>4<?p y?>5</a><!--z--><b>6</b><c/></f>"
AROUND = ("<!--v--><f>1<a b='3'>4</a><b>6</b><c/></f>", "<f>1<a b='3'>4</a><b>6</b><c/></f><?p w?>")


@pytest.mark.parametrize("xml", [XML, *AROUND])
@pytest.mark.parametrize(
    "query",
    [
        "//a = 45",
        "/f/a/@b = 3",
        "text()[2] = 2",
        "text()[1] = 12",
        "string(/) = '12456'",
        "//a/text()[2] = 5",
        "//a[1]/@b = 3",
        "//*[2] = 6",
        "//b/preceding-sibling::*[1] = 45",
        "//b/preceding::text()[1] = 5",
        "//a/following::* = 6",
        "//@b > 2",
        "//text() = 5",
        "count(//text()) = 5",
        "//a/.. = '12456'",
        "//b[parent::node()] = 6",
        "//b/ancestor::node() = 6",
        "//a/@*/ancestor-or-self::node() = 3",
        "//a/self::node() = 45",
        "//a[.] = 45",
        "//c[not(node()/b)]",
        "descendant-or-self::node()/@b = 3",
        "//node()/b = 6",
        "count(/*) = 1",
        "//c = ''",
        "self::comment()",
        "//a/attribute::node() = 3",
    ],
)
def test_a_query_that_sees_no_remarks_is_decided(query: str, xml: str) -> None:
    root = etree.fromstring(xml)
    assert said(query, root) is oracle(query, root)


@pytest.mark.parametrize(
    "query",
    [
        "comment() = 'x'",
        "/f/processing-instruction('p')",
        "node()[2] = 'x'",
        "count(//node()) = 12",
        "//a/node()[2]",
        "//b/preceding-sibling::node()[1] = 'z'",
        "//b/preceding::node() = 'y'",
        "/f/following::node()",
        "//a/following-sibling::node()[1] = 'z'",
        "//..",
        "//.",
        "descendant-or-self::node()[2] = 1",
        "//a[node()[2]]",
        "/node() = 'v'",
        "//a[following-sibling::comment() = 'z']/@b = 3",
    ],
)
def test_a_query_that_sees_remarks_is_left_to_lxml(query: str) -> None:
    assert said(query, etree.fromstring(XML)) is None
    plain = etree.fromstring("<f>1<a b='3'>4</a><b>6</b><c/></f>")
    assert said(query, plain) is oracle(query, plain)


def test_the_rest_of_a_query_that_sees_remarks_rules_documents_out() -> None:
    root = etree.fromstring(XML)
    assert said("//comment() = 'x' and //b = 6", root) is None
    assert said("//comment() = 'x' and //b = 7", root) is False


def test_what_is_no_remark_and_no_element_has_no_tree() -> None:
    parser = etree.XMLParser(resolve_entities=False)
    root = etree.fromstring("<!DOCTYPE f [<!ENTITY e 'x'>]><f>1&e;2</f>", parser)
    assert build_document_tree(root) is None


@pytest.mark.parametrize("remark", ["<!-- so -->", "<?p so?>"])
def test_the_queries_of_a_family_are_looked_up_on_a_document_with_a_remark(
    flight_dtd: Dtd, remark: str
) -> None:
    twins = Twins(flight_dtd)
    for number in range(1_000):
        twins.subscribe(f"//altitude = {number}")
    document = event(b"<flight><id>1</id><leg><altitude>7</altitude></leg></flight>")
    for place in (b"<leg>", b"</leg>", b"7</alt", b"</flight>"):
        twins.match([document.replace(place, remark.encode() + place)])
    around = remark.encode()
    twins.match([document.replace(b"<!DOCTYPE", around + b"<!DOCTYPE"), document + around])
    assert twins.matched == 6
    assert twins.count("evaluations") == 0


def test_those_that_may_see_the_remark_are_evaluated(flight_dtd: Dtd) -> None:
    twins = Twins(flight_dtd)
    for number in range(50):
        twins.subscribe(f"//leg/node() = {number}")
        twins.subscribe(f"//leg/comment() = {number} and //altitude = {number}")
    document = event(b"<flight><id>1</id><leg><!--8--><altitude>7</altitude></leg></flight>")
    twins.match([document, document.replace(b"--8--", b"--7--")])
    # The first sort on both documents; of the other only the one that the altitude leaves.
    assert twins.count("evaluations") == 2 * (50 + 1)
    assert twins.matched == 2 + 1 + 1
