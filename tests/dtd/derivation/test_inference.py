from __future__ import annotations

import random
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from broker.dtd.content_model import MAX_PAIRS
from broker.dtd.derivation.driver import write_driver
from broker.dtd.derivation.inference import REQUIRED_FROM
from broker.dtd.derivation.report import report_lines
from broker.dtd.derivation.sample_statistics import MAX_ELEMENTS
from broker.errors import BadDtd
from tests.dtd.derivation.sample_documents import (
    TREES,
    Tree,
    build,
    find_problem,
    infer,
    load,
    read_back,
)


def parse(*texts: str) -> list[etree._Element]:
    return [etree.fromstring(text) for text in texts]


def declarations(*texts: str) -> dict[str, str]:
    """Return the content models by element, without white space."""
    text = load(infer(parse(*texts))).text.decode()
    lines = [line.split(" ", 2) for line in text.splitlines() if line.startswith("<!ELEMENT")]
    return {name: model.rstrip(">") for _, name, model in lines if not name.startswith("Mspaces:")}


#: Prefixes of a document for the namespaces of `TREES`; "" is the default namespace.
BINDINGS = st.permutations(["p", "q", "Mspaces", "r"]).flatmap(
    lambda prefixes: st.sampled_from(
        [
            {prefixes[0]: "urn:p", prefixes[1]: "urn:q?a&b=1"},
            {"": "urn:p", prefixes[0]: "urn:p", prefixes[1]: "urn:q?a&b=1"},
            {prefixes[0]: "urn:q?a&b=1", prefixes[1]: "urn:p", prefixes[2]: "urn:unused"},
        ]
    )
)


@settings(max_examples=60)
@given(st.lists(st.tuples(TREES, BINDINGS), min_size=1, max_size=25))
def test_the_dtd_accepts_all_samples(samples: list[tuple[Tree, dict[str, str]]]) -> None:
    documents = [read_back(build(tree, bindings)) for tree, bindings in samples]
    dtd = load(infer(documents))
    assert [problem for each in documents if (problem := find_problem(dtd, each))] == []


@pytest.mark.parametrize(
    "source",
    [
        "faa-swim-race/asdexMsg.xml",
        "faa-swim-race/sfdps-msg.xml",
        "faa-swim-race/tais-msg.xml",
        "faa-swim-race/tfmDataService.xml",
        "nitf-benchmark/nitf-test.xml",
        "xmark-nux/auction-0.01.xml",
        "iwxxm-fmi/*.xml",
        "cap-google/[a-z]*[!r][!s].cap",
    ],
)
def test_the_dtd_accepts_real_samples(shared_data: Path, source: str) -> None:
    parser = etree.XMLParser(resolve_entities=False)
    files = [file for file in sorted(shared_data.glob(source)) if file.name != "xee.cap"]
    documents = [etree.parse(file, parser).getroot() for file in files]
    dtd = load(infer(documents))
    assert documents
    assert [problem for each in documents if (problem := find_problem(dtd, each))] == []


def test_a_dtd_of_half_a_feed_accepts_most_of_the_rest(shared_data: Path) -> None:
    with tarfile.open(shared_data / "voevent" / "2020-06.002.tar.bz2") as archive:
        packets = [file.read() for member in archive if (file := archive.extractfile(member))]
    packets = [packet for packet in packets if b"VOEvent/v2.0" in packet]
    random.Random(1).shuffle(packets)
    documents = [etree.fromstring(packet) for packet in packets]
    half = len(documents) // 2
    dtd = load(infer(documents[:half]))
    assert all(find_problem(dtd, each) is None for each in documents[:half])
    refused = sum(find_problem(dtd, each) is not None for each in documents[half:])
    assert refused < 0.1 * half


def test_content_is_generalised() -> None:
    many = ["<r><a>1</a><b/><c>x<d/></c></r>"] * REQUIRED_FROM
    assert declarations(*many) == {
        "r": "(a,b,c)",
        "a": "(#PCDATA)",
        "b": "EMPTY",
        "c": "(#PCDATA|d)*",
        "d": "EMPTY",
    }
    assert declarations(*many, "<r><a/></r>")["r"] == "(a,b?,c?)"
    assert declarations(*many, "<r><c/><a/></r>")["r"] == "(a|b|c)+"
    # Once is not enough to require anything, or to refuse text.
    assert declarations("<r><a/></r>") == {"r": "(a?)", "a": "(#PCDATA)"}


def test_attributes_are_required_by_many_samples_and_have_no_defaults() -> None:
    documents = parse(*["<r x='1'/>"] * REQUIRED_FROM)
    dtd = load(infer(documents))
    (attribute,) = dtd.elements["r"].attributes
    assert (attribute.required, attribute.default, attribute.type) == (True, None, "cdata")
    (attribute,) = load(infer(documents[1:])).elements["r"].attributes
    assert not attribute.required


@pytest.mark.parametrize(
    ("text", "names", "bindings"),
    [
        ("<a xmlns='urn:1'><b/></a>", {"a", "b"}, {"xmlns": "urn:1"}),
        ("<p:a xmlns:p='urn:1'><b/></p:a>", {"p:a", "b"}, {"xmlns:p": "urn:1"}),
        # One namespace with several prefixes, of different names.
        (
            "<p:a xmlns:p='u'><q:b xmlns:q='u'/></p:a>",
            {"p:a", "q:b"},
            {"xmlns:p": "u", "xmlns:q": "u"},
        ),
        # Of the same name: one prefix for the namespace.
        (
            "<p:a xmlns:p='u'><q:a xmlns:q='u'><p:b/></q:a></p:a>",
            {"p:a", "p:b"},
            {"xmlns:p": "u", "xmlns:q": "u"},
        ),
        # A default namespace that the root does not have.
        ("<p:a xmlns:p='u' xmlns='u'><b/></p:a>", {"p:a", "p:b"}, {"xmlns:p": "u"}),
        # A prefix with two namespaces.
        (
            "<p:a xmlns:p='urn:x:1'><p:b xmlns:p='urn:x:2'/><p:c/></p:a>",
            {"p:a", "p2:b", "p:c"},
            {"xmlns:p": "urn:x:1", "xmlns:p2": "urn:x:2"},
        ),
        # A namespace without prefix beside names without namespace.
        (
            "<a xmlns='urn:oasis:cap:1.1'><b xmlns=''/></a>",
            {"cap:a", "b"},
            {"xmlns:cap": "urn:oasis:cap:1.1"},
        ),
        # The envelope's prefix.
        ("<Mspaces:a xmlns:Mspaces='urn:own'/>", {"own:a"}, {"xmlns:own": "urn:own"}),
    ],
)
def test_a_namespace_gets_a_prefix(text: str, names: set[str], bindings: dict[str, str]) -> None:
    dtd = load(infer(parse(text)))
    own = {name: each for name, each in dtd.elements.items() if not name.startswith("Mspaces:")}
    assert set(own) == names
    root = next(each for each in own.values() if each.name == "a")
    found = {each.qualified_name: each.default for each in root.attributes if each.fixed}
    assert found == bindings


def test_a_prefix_changes_with_no_order_of_the_samples() -> None:
    documents = parse(
        "<x:a xmlns:x='urn:1'><y:b xmlns:y='urn:2'/></x:a>",
        "<y:a xmlns:y='urn:1'><x:b xmlns:x='urn:2'/></y:a>",
    )
    tables = [infer(order).table for order in (documents, documents[::-1])]
    assert tables[0].prefixes == tables[1].prefixes


def test_models_that_a_node_refuses_are_widened() -> None:
    # As a chain of 220 optional names, each element has about half of MAX_PAIRS.
    children = "".join(f"<n{number}/>" for number in range(220))
    documents = parse(*(f"<r><e{number}>{children}</e{number}></r>" for number in range(12)))
    derivation = infer(documents)
    assert 12 * 220 * 219 // 2 > 200_000 > MAX_PAIRS
    written = write_driver(derivation)
    assert 0 < len(written.widened) < 12
    assert any("widened" in line for line in report_lines(derivation, written.widened))
    dtd = load(derivation)
    assert [problem for each in documents if (problem := find_problem(dtd, each))] == []


@pytest.mark.parametrize("children", [300, 990, 1_100])
def test_an_element_of_many_names_accepts_them_in_any_order(children: int) -> None:
    document = etree.fromstring(
        "<r>" + "".join(f"<n{number}/>" for number in range(children)) + "</r>"
    )
    dtd = load(infer([document]))
    for child in list(document):
        document.insert(0, child)
    assert find_problem(dtd, document) is None


def test_names_that_are_data_are_refused() -> None:
    documents = (etree.fromstring(f"<r><n{number}/></r>") for number in range(MAX_ELEMENTS + 1))
    with pytest.raises(BadDtd, match="more than 4,000 names of elements: names that are data"):
        infer(documents)
    attributes = " ".join(f"a{number}=''" for number in range(257))
    with pytest.raises(BadDtd, match="element 'r' needs more than 256 attributes"):
        load(infer(parse(f"<r {attributes}/>")))
    with pytest.raises(BadDtd, match="element of the envelope's namespace"):
        infer(parse("<r><x:Event xmlns:x='urn:xmlbroker:mspaces'/></r>"))


def test_a_long_dtd_drops_its_comments_before_its_models() -> None:
    name = "n" * 60
    documents = [etree.fromstring(f"<r><{name}{at} a='1'>x</{name}{at}></r>") for at in range(700)]
    text = write_driver(infer(documents)).text
    assert "<!-- Event type" in text and text.count("<!--") == 1
    assert f"<!ELEMENT {name}0 (#PCDATA)>" in text
    assert len(text) < 256 * 1024


def test_each_guess_is_reported_with_its_evidence() -> None:
    documents = parse(
        *["<r s='on'><a/><b/></r>"] * 30, *["<r s='off' y='1'><b/><c>t</c></r>"] * 2, "<r s='on'/>"
    )
    derivation = infer(documents)
    lines = report_lines(derivation, ())
    assert "inferred from 33 samples" in lines[0]
    assert lines[1:] == [
        "r: 33 occurrences; a in 30 of 33, b in 32 of 33, c in 2 of 33; "
        "@s in all (so far only 'off', 'on'); @y in 2 of 33",
        "a: 30 occurrences; always empty: text is refused",
        "b: 32 occurrences; always empty: text is refused",
        "c: 2 occurrences, too few to require anything; text in all",
    ]
    assert (
        "<!-- c: 2 occurrences, too few to require anything; text in all -->"
        in write_driver(derivation).text
    )


def test_the_text_is_the_same_for_the_same_samples() -> None:
    texts = ["<r b='1' a='2'/>", "<r c='3'><x/><y/></r>"]
    first, second = (write_driver(infer(parse(*texts))).text for _ in range(2))
    assert first == second
