from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from broker.cli.publishing.ancestor_values import MAX_VALUE, Copy, Field
from broker.cli.publishing.collection_splitter import (
    MAX_DEPTH,
    MAX_NAMES,
    CollectionSplitter,
    Split,
)
from broker.cli.publishing.document_reader import split_collections
from broker.cli.publishing.publication import RawDocument
from broker.cli.publishing.split_path import parse_split_path

BINDINGS = {"p": "urn:one", "q": "urn:two", "d": "urn:default"}
XSI = "http://www.w3.org/2001/XMLSchema-instance"


def split_for(path: str, *copies: tuple[Field, str], **bindings: str) -> Split:
    return Split(
        parse_split_path(path, bindings),
        tuple(
            Copy(field, parse_split_path(value, bindings, allow_attribute=True))
            for field, value in copies
        ),
    )


def cut(
    document: bytes | str, split: Split, portion: int = 1 << 16, **options: Any
) -> list[RawDocument]:
    data = document.encode() if isinstance(document, str) else document
    splitter = CollectionSplitter("f", split, **options)
    found: list[RawDocument] = []
    for at in range(0, len(data), portion):
        found += splitter.feed(data[at : at + portion])
    return found + splitter.close()


def problems(document: bytes | str, split: Split, **options: Any) -> list[str]:
    return [each.problem for each in cut(document, split, **options)]


# --------------------------------------------------------------------------- lxml as the oracle

NAMES = st.sampled_from(("a", "b", "p:a", "q:a", "p:b"))
DECLARATIONS = st.dictionaries(
    st.sampled_from(("xmlns", "xmlns:p", "xmlns:q", "xmlns:z")),
    st.sampled_from(("urn:one", "urn:two", "urn:default", "urn:x?a&b'")),
    max_size=2,
)
ATTRIBUTES = st.dictionaries(
    st.sampled_from(("x", "p:x", "q:y", "xsi:type")),
    st.sampled_from(("1", "2", "p:a", "z:b", "a", "&<\n")),
    max_size=2,
)
TEXTS = st.sampled_from(
    ("", " \n", "ä&amp;b", "<![CDATA[</a><b>]]>", "<!--<a>-->", "<?a <b>?>", "p:a", "z:q")
)


@st.composite
def elements(draw: st.DrawFn, depth: int = 4) -> str:
    name = draw(NAMES)
    attributes = {**draw(DECLARATIONS), **draw(ATTRIBUTES)}
    tag = name + "".join(
        f" {key}={quoteattr(value, {chr(10): '&#10;'})}" for key, value in attributes.items()
    )
    children = draw(st.lists(elements(depth - 1), max_size=3)) if depth else []
    content = "".join(draw(TEXTS) + child for child in children) + draw(TEXTS)
    return f"<{tag}>{content}</{name}>" if content else f"<{tag}/>"


@st.composite
def documents(draw: st.DrawFn) -> str:
    children = "".join(draw(st.lists(elements(), min_size=1, max_size=3)))
    bindings = "".join(f' xmlns:{prefix}="{uri}"' for prefix, uri in BINDINGS.items())
    default = draw(st.sampled_from(("", ' xmlns="urn:default"')))
    root = f'root xmlns:xsi="{XSI}" xmlns:z="urn:z"{bindings}{default}'
    return f"<?xml version='1.0'?><!--c--><{root}>{children}</root>\n<?end?>"


STEPS = st.tuples(
    st.sampled_from(("/", "//", "//")),
    st.sampled_from(("a", "p:a", "q:a", "d:a", "d:b", "*", "p:*")),
    st.sampled_from(
        (
            *("", "", "", "[@x]", "[@p:x]", "[@x = '1']", "['1' != @x]", "[not(@x)]"),
            *("[@x or @q:y]", "[@x and @q:y]", "[contains(@x, 'p')]", "[@x][starts-with(@x, '1')]"),
        )
    ),
)
PATHS = st.lists(STEPS, min_size=1, max_size=3).map(lambda steps: "".join(map("".join, steps)))


def outermost(root: etree._Element, path: str, bindings: dict[str, str]) -> list[etree._Element]:
    found: Any = root.getroottree().xpath(path, namespaces=bindings)
    matches = set(found)
    return [each for each in found if matches.isdisjoint(each.iterancestors())]


def canonical(element: etree._Element) -> bytes:
    return etree.tostring(element, method="c14n", exclusive=True, with_tail=False)


def bindings_of_values(element: etree._Element) -> list[tuple[str, str | None]]:
    """Prefixes in values and texts, with their namespaces at that place."""
    found = []
    for each in element.iter("*"):
        for value in (*each.attrib.values(), each.text or ""):
            prefix, colon, _ = str(value).partition(":")
            if colon:
                found.append((str(value), each.nsmap.get(prefix)))
        if value := each.get(f"{{{XSI}}}type"):
            found.append((value, each.nsmap.get(None) or None))
    return found


@settings(max_examples=60, deadline=None)
@given(documents(), PATHS, st.sampled_from((1, 3, 17, 4096)))
def test_events_are_the_elements_that_lxml_finds(document: str, path: str, portion: int) -> None:
    expected = outermost(etree.fromstring(document.encode()), path, BINDINGS)
    events = cut(document, split_for(path, **BINDINGS), portion)
    if not expected:
        assert [each.data for each in events] == [b""]
        assert events[0].problem.startswith("nothing matches --split")
        return
    assert [each.problem for each in events] == [""] * len(expected)
    for event, element in zip(events, expected, strict=True):
        made = etree.fromstring(event.data)
        assert canonical(made) == canonical(element)
        assert bindings_of_values(made) == bindings_of_values(element)
        assert document.split("\n")[event.location.line - 1].count("<")


MUTATIONS = st.lists(
    st.tuples(
        st.integers(0, 10_000),
        st.integers(0, 3),
        st.sampled_from(
            (
                *(b"<", b">", b"/", b"'", b'"', b"&", b"&x;", b":", b" ", b"\n", b"\x00", b"\xff"),
                *(
                    b"]]>",
                    b"<!--",
                    b"<![CDATA[",
                    b"<?",
                    b"<a>",
                    b"</a>",
                    b"<!DOCTYPE a>",
                    b"xmlns=",
                ),
                *(b"<?xml version='1.0' encoding='latin-1'?>", b"\xef\xbb\xbf", b"</root>"),
            )
        ),
    ),
    max_size=3,
)


@settings(max_examples=60, deadline=None)
@given(documents(), MUTATIONS, PATHS, st.sampled_from((1, 7)))
def test_broken_markup_is_cut_the_same_in_any_portions(
    document: str, mutations: list[tuple[int, int, bytes]], path: str, portion: int
) -> None:
    data = document.encode()
    for at, length, inserted in mutations:
        at %= len(data)
        data = data[:at] + inserted + data[at + length :]
    split = split_for(path, ("summary", "//p:a/@x"), ("application-type", "//b"), **BINDINGS)
    events = cut(data, split)
    assert cut(data, split, portion) == events
    assert events
    assert all(bool(each.data) != bool(each.problem) for each in events)


# --------------------------------------------------------------------------- what an event is


def test_an_event_keeps_its_bytes_and_gets_only_bindings_that_it_uses() -> None:
    feed = (
        '<feed xmlns="urn:atom" xmlns:cap="urn:cap" xmlns:geo="urn:geo"><title>t</title>\n'
        "<cap:alert  id='1'\n><cap:sent><![CDATA[1]]></cap:sent ></cap:alert>"
        '<alert xmlns="urn:cap:1"/><alert/></feed>'
    )
    events = cut(feed, split_for("/a:feed/*[not(@title)]", a="urn:atom"))
    assert [each.data for each in events] == [
        b'<title xmlns="urn:atom">t</title>',
        b"<cap:alert xmlns:cap=\"urn:cap\"  id='1'\n>"
        b"<cap:sent><![CDATA[1]]></cap:sent ></cap:alert>",
        b'<alert xmlns="urn:cap:1"/>',
        b'<alert xmlns="urn:atom"/>',
    ]
    assert [each.location.line for each in events] == [1, 2, 3, 3]


@pytest.mark.parametrize("count", [3, 30])
def test_many_prefixes_are_found_in_markup_and_values(count: int) -> None:
    bindings = "".join(f" xmlns:n{n}='urn:n{n}'" for n in range(100))
    names = [f"n{n}:x" for n in range(count)]
    content = "<n0:x/>" + "".join(f"<i t='({each})'>{each}</i>" for each in names) + "a:n99:x"
    (event,) = cut(f"<a{bindings}><e>{content}</e></a>", split_for("//e"))
    assert etree.fromstring(event.data).nsmap == {f"n{n}": f"urn:n{n}" for n in range(count)}


def test_an_event_in_another_encoding_becomes_utf_8() -> None:
    feed = '<?xml version="1.0" encoding="ISO-8859-1"?><f><ä x="ö">ü&#252;</ä></f>'
    (event,) = cut(feed.encode("latin-1"), split_for("//ä[@x = 'ö']"))
    assert event.data.decode() == '<ä x="ö">ü&#252;</ä>'


def test_each_document_of_a_source_is_cut() -> None:
    source = '<a><e n="1"/></a>\n<?xml version="1.0"?><b><x/></b>\ufeff<e n="2"/><e n="3"/> '
    for portion in (1, 5, 1000):
        events = cut(source, split_for("//e"), portion)
        assert [(each.location.line, each.data) for each in events] == [
            (1, b'<e n="1"/>'),
            (2, b""),
            (2, b'<e n="2"/>'),
            (2, b'<e n="3"/>'),
        ]


def test_values_of_ancestors_are_copied() -> None:
    feeds = (
        "<feeds><feed term='a'><title> one &amp; <b>two</b>\n</title><title>other</title><e/>"
        "<entry><title>inner</title><e/></entry></feed><feed term='b'><e/></feed></feeds>"
    )
    split = split_for(
        "//e",
        ("summary", "//feed/title"),
        ("application-type", "/feeds/feed/@term"),
        ("application-type", "//title"),
    )
    for portion in (1, 1000):
        assert [each.fields for each in cut(feeds, split, portion)] == [
            {"summary": "one & two", "application_types": ["a", "one & two"]},
            {"summary": "one & two", "application_types": ["a", "inner"]},
            {"application_types": ["b"]},
        ]


# --------------------------------------------------------------------------- refusals

REFUSED = (
    ("<a><e/><e></a>", "not well-formed: mismatched tag"),
    ("<a><e/>", "not well-formed: no element found"),
    ("text", "not well-formed: syntax error"),
    ("<a>&x;</a>", "not well-formed: undefined entity"),
    ("<!DOCTYPE a SYSTEM 'a.dtd'><a>&x;</a>", "the document has a DOCTYPE"),
    ("<!DOCTYPE a [<!ENTITY x 'y'>]><a><e>&x;</e></a>", "the document has a DOCTYPE"),
    ("<?xml version='1.1'?><a/>", "it is XML 1.1"),
    ("<?xml version='1.0' encoding='shift_jis'?><a/>", "multi-byte encodings"),
    ("<?xml version='1.0' encoding='no-such'?><a/>", "unknown encoding: no-such"),
    ("<p:a/>", "the prefix p is not bound"),
    ("<b>" * (MAX_DEPTH + 1), f"more than {MAX_DEPTH} elements"),
    ("<e>" + "<b>" * MAX_DEPTH, f"more than {MAX_DEPTH} elements"),
    (
        "<a>" + "".join(f"<n{n}/>" for n in range(MAX_NAMES + 1)) + "<e/>" * 20_000,
        f"the document has more than {MAX_NAMES} distinct",
    ),
    ("<a " + " ".join(f"xmlns:n{n}='u'" for n in range(300)) + "/>", "more than 256 namespace"),
    ("<a><!--" + "x" * 200_000, "a single tag, comment or section is larger than 100000 bytes"),
)


@pytest.mark.parametrize(("document", "reason"), REFUSED, ids=[each[1] for each in REFUSED])
def test_a_document_that_can_not_be_read_ends_its_source(document: str, reason: str) -> None:
    *_, last = problems(document, split_for("//e"), max_event=100_000)
    assert last.startswith(reason)
    assert last.endswith("the rest of the source is skipped")


def test_events_before_a_malformed_place_are_events() -> None:
    events = cut("<a><e>1</e>\n<e>2</e> </b>", split_for("//e"))
    assert [each.data for each in events] == [b"<e>1</e>", b"<e>2</e>", b""]
    assert events[-1].location.line == 2


def test_an_event_that_is_too_large_is_refused_and_the_rest_is_cut() -> None:
    document = "<a><e>1</e><e>" + "<b/>" * 100_000 + "</e><e>2</e></a>"
    events = cut(document, split_for("//e"), 1000, max_event=10_000)
    assert [each.data for each in events] == [b"<e>1</e>", b"", b"<e>2</e>"]
    assert events[1].problem == "the event is larger than 10000 bytes"


def test_bindings_of_ancestors_are_bounded_in_each_event() -> None:
    document = f'<a xmlns:p="{"x" * 5000}"><p:e/><e/></a>'
    events = cut(document, split_for("//e"))
    assert [each.data for each in events] == [b"<e/>"]
    assert problems(document, split_for("//p:e", p="x" * 5000)) == [
        "the namespaces of its ancestors have more than 4096 bytes"
    ]


def test_a_copied_value_is_bounded() -> None:
    document = f"<a><t>{'x' * 100_000}</t><e/></a>"
    (event,) = cut(document, split_for("//e", ("summary", "/a/t")), 1000)
    assert event.fields == {"summary": "x" * MAX_VALUE}


HINTS: tuple[tuple[str, str, dict[str, str], str], ...] = (
    ("<f xmlns='urn:cap'><alert/></f>", "//alert", {}, "give --namespace p=urn:cap and write p:al"),
    ("<f><alert/></f>", "//c:alert", {"c": "urn:cap"}, "alert occurs without a namespace"),
    ("<f><alarm/></f>", "//alert", {}, "there is no element alert"),
    ("<f><alert/></f>", "//alert[@id]", {}, "nothing matches --split //alert[@id]"),
)


@pytest.mark.parametrize(("document", "path", "bindings", "hint"), HINTS)
def test_a_document_without_an_event_is_refused_with_a_hint(
    document: str, path: str, bindings: dict[str, str], hint: str
) -> None:
    (problem,) = problems(document, split_for(path, **bindings))
    assert hint in problem


def test_names_without_prefix_may_have_a_default_namespace() -> None:
    document = "<f xmlns='urn:cap'><alert id='1'/><alert xmlns='' id='2'/><a/></f>"
    (event,) = cut(document, split_for("/f/alert[@id]", **{"": "urn:cap"}))
    assert etree.fromstring(event.data).get("id") == "1"


# --------------------------------------------------------------------------- memory and real data

MEASURE = """
import resource
from tests.cli.publishing.test_collection_splitter import cut_large
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
cut_large(64)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def cut_large(mebibytes: int) -> int:
    event = b"<e><t>" + b"x" * 4070 + b"</t></e>\n"
    portion = event * 16

    def portions() -> Iterator[bytes]:
        yield b"<c>"
        for _ in range(mebibytes * 16):
            yield portion
        yield b"</c>"

    split = split_for("/c/e", ("summary", "/c/@x"))
    return sum(len(each.data) for each in split_collections(portions(), "f", split))


def test_a_large_collection_is_not_held() -> None:
    # A process of its own: its peak is that of this work.
    root = Path(__file__).resolve().parents[3]
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root)!r}){MEASURE}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    kibibytes = int(done.stdout)
    assert kibibytes < 4096


@pytest.mark.parametrize(
    ("file", "path", "bindings", "count"),
    [
        ("sfdps-msg.xml", "//message/flight", {}, 100),
        (
            "tfmDataService.xml",
            "//f:fltdMessage",
            {"f": "urn:us:gov:dot:faa:atm:tfm:flightdata"},
            36,
        ),
        ("tais-msg.xml", "//record", {}, 15),
        ("asdexMsg.xml", "//positionReport", {}, 25),
    ],
)
def test_swim_collections_are_cut(
    shared_data: Path, file: str, path: str, bindings: dict[str, str], count: int
) -> None:
    data = (shared_data / "faa-swim-race" / file).read_bytes()
    expected = outermost(etree.fromstring(data), path, bindings)
    events = cut(data, split_for(path, **bindings), 1000)
    assert len(events) == count
    for event, element in zip(events, expected, strict=True):
        made = etree.fromstring(event.data)
        assert canonical(made) == canonical(element)
        assert bindings_of_values(made) == bindings_of_values(element)
