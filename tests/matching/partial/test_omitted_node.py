"""Documents with comments and instructions: decisions without them agree with lxml."""

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
from tests.matching.engine.engine_pair import EnginePair
from tests.matching.partial.test_evaluator import (
    LITERALS,
    PATHS,
    _calls,
    documents,
    holds,
    oracle,
)
from tests.matching.unlimited import ANY_COST

OMITTED_NODES = ("<!---->", "<!--290-->", "<?a?>", "<?p 5?>")


def decide(query: str, root: etree._Element) -> bool | None:
    """The evaluator's decision on a parsed document; None if it is undecided but possible."""
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


def insert_nodes(xml: str, inserted: Sequence[tuple[int, str]]) -> etree._Element:
    """Insert each node at a position: around the root element, between and in texts."""
    places = [0, *(m.start() for m in re.finditer(r"(?<=>)|[^<>](?=[^<>]*<)", xml))]
    for place, node in sorted(
        ((places[number % len(places)], node) for number, node in inserted), reverse=True
    ):
        xml = xml[:place] + node + xml[place:]
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


@settings(max_examples=800)
@given(
    root=documents(),
    inserted=st.lists(
        st.tuples(st.integers(0, 60), st.sampled_from(OMITTED_NODES)), min_size=1, max_size=4
    ),
    query=QUERIES,
)
def test_decisions_on_documents_with_omitted_nodes_agree_with_lxml(
    root: etree._Element, inserted: list[tuple[int, str]], query: str
) -> None:
    document = insert_nodes(etree.tostring(root, encoding="unicode"), inserted)
    answer, expected = decide(query, document), oracle(query, document)
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
def test_a_query_that_can_not_observe_omitted_nodes_is_decided(query: str, xml: str) -> None:
    root = etree.fromstring(xml)
    assert decide(query, root) is oracle(query, root)


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
def test_a_query_that_can_observe_omitted_nodes_is_undecided(query: str) -> None:
    assert decide(query, etree.fromstring(XML)) is None
    plain = etree.fromstring("<f>1<a b='3'>4</a><b>6</b><c/></f>")
    assert decide(query, plain) is oracle(query, plain)


def test_other_conditions_still_exclude_documents() -> None:
    root = etree.fromstring(XML)
    assert decide("//comment() = 'x' and //b = 6", root) is None
    assert decide("//comment() = 'x' and //b = 7", root) is False


def test_a_document_with_an_entity_reference_has_no_tree() -> None:
    parser = etree.XMLParser(resolve_entities=False)
    root = etree.fromstring("<!DOCTYPE f [<!ENTITY e 'x'>]><f>1&e;2</f>", parser)
    assert build_document_tree(root) is None


@pytest.mark.parametrize("node", ["<!-- so -->", "<?p so?>"])
def test_queries_of_one_template_are_looked_up_on_a_document_with_omitted_nodes(
    flight_dtd: Dtd, node: str
) -> None:
    twins = EnginePair(flight_dtd)
    for number in range(1_000):
        twins.subscribe(f"//altitude = {number}")
    document = event(b"<flight><id>1</id><leg><altitude>7</altitude></leg></flight>")
    for place in (b"<leg>", b"</leg>", b"7</alt", b"</flight>"):
        twins.match([document.replace(place, node.encode() + place)])
    around = node.encode()
    twins.match([document.replace(b"<!DOCTYPE", around + b"<!DOCTYPE"), document + around])
    assert twins.matched == 6
    assert twins.count("evaluations") == 0


def test_queries_that_can_observe_omitted_nodes_are_evaluated(flight_dtd: Dtd) -> None:
    twins = EnginePair(flight_dtd)
    for number in range(50):
        twins.subscribe(f"//leg/node() = {number}")
        twins.subscribe(f"//leg/comment() = {number} and //altitude = {number}")
    document = event(b"<flight><id>1</id><leg><!--8--><altitude>7</altitude></leg></flight>")
    twins.match([document, document.replace(b"--8--", b"--7--")])
    # The first kind on both documents; of the second only the one that the altitude leaves.
    assert twins.count("evaluations") == 2 * (50 + 1)
    assert twins.matched == 2 + 1 + 1
