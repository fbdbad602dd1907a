"""The payload is lxml's element, for any bytes around it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from broker.errors import BadEnvelope, ForbiddenMarkup, NotWellFormed
from broker.event.byte_index import end_of_element, start_of_element
from broker.event.envelope import NAMESPACE
from broker.event.merging.linkage import read_linkage
from broker.event.payload import find_payload_bytes
from broker.event.reader import parse_document, read_event
from tests.event.delimiters import (
    DELIMITERS,
    MARKUP_PLACES,
    TEXT_PLACES,
    VALUE_PLACES,
    event_with,
    fillings,
    single_fillings,
)

_Q = f"{{{NAMESPACE}}}"
PARSER = etree.XMLParser(resolve_entities=False, no_network=True)


def canonical(element: etree._Element) -> bytes:
    return etree.tostring(element, method="c14n", with_tail=False)


def string_of(root: etree._Element, name: str) -> str:
    return str(next(root.iter(f"{_Q}{name}")).xpath("string()"))


def check_is_what_lxml_says(document: bytes, payload: bytes) -> None:
    """Check the payload's bytes and tree, and the envelope's texts."""
    root = etree.fromstring(document, PARSER)
    event = read_event(document)
    assert event.payload == payload
    alone = etree.fromstring(
        b'<Mspaces:Event xmlns:Mspaces="%b">%b</Mspaces:Event>' % (NAMESPACE.encode(), payload),
        PARSER,
    )
    assert (len(alone), alone.text, alone[0].tail) == (1, None, None)
    (expected,) = root.iterchildren("deadletter")
    assert canonical(alone[0]) == canonical(expected)
    assert event.summary == string_of(root, "Summary")
    assert event.application_types == (string_of(root, "ApplicationType"),)
    assert event.linkage == read_linkage(document)
    assert event.linkage.time_constraint == string_of(root, "TimeConstraint")
    assert event.linkage.merge_scheme == string_of(root, "MergeScheme")
    (order,) = next(root.iter(f"{_Q}BundleOrder")).iterchildren("*")
    assert [each.name for each in event.linkage.order] == [str(order.xpath("string()"))]


def test_each_delimiter_at_each_place() -> None:
    count = 0
    for place, filling in single_fillings():
        document, payload = event_with({place: filling})
        try:
            check_is_what_lxml_says(document, payload)
        except (AssertionError, BadEnvelope, NotWellFormed) as error:
            raise AssertionError(f"{place}: {filling}") from error
        count += 1
    assert count > 1000


FILLED = st.dictionaries(
    st.sampled_from(MARKUP_PLACES + TEXT_PLACES + VALUE_PLACES),
    st.lists(st.tuples(st.sampled_from(DELIMITERS), st.integers(0, 10)), min_size=1, max_size=3),
)


def chosen(place: str, choices: list[tuple[str, int]]) -> str:
    made = ""
    for delimiter, number in choices:
        possible = list(fillings(place, delimiter))
        made += possible[number % len(possible)] if possible else ""
    return made


@given(FILLED)
def test_delimiters_at_many_places(filled: dict[str, list[tuple[str, int]]]) -> None:
    document, payload = event_with({place: chosen(place, filled[place]) for place in filled})
    check_is_what_lxml_says(document, payload)
    check_is_what_lxml_says(b"\xef\xbb\xbf" + document, payload)


@given(FILLED)
def test_a_payload_found_from_its_end_is_found_by_counting_too(
    filled: dict[str, list[tuple[str, int]]],
) -> None:
    document, payload = event_with({place: chosen(place, filled[place]) for place in filled})
    root = parse_document(document)
    (element,) = root.iterchildren("deadletter")
    number = [*root.iter("*")].index(element)
    start = start_of_element(document, number)
    end = end_of_element(document, number, len([*element.iter("*")]))
    assert document[start:end] == payload


def envelope_around(payload: str, more: str = "") -> bytes:
    document, inside = event_with({})
    root = f'<Mspaces:Event xmlns:Mspaces="{NAMESPACE}"'.encode()
    return document.replace(inside, payload.encode()).replace(root, root + more.encode())


@pytest.mark.parametrize(
    "payload",
    [
        "<a/>",
        "<a></a>",
        "<a/ >".replace(" ", ""),
        "<a>/></a >",
        "<a><a/></a>",
        "<Mspaces:Event/>",
        "<Mspaces:Event><Mspaces:Event/></Mspaces:Event>",
        "<Mspaces:EventId xmlns:Mspaces='urn:other'/>",
        '<Event xmlns="urn:xmlbroker:mspaces"/>',
        "<a-- b='-->'/>",
        "<a--></a-->",
        # Letters since the fifth edition of XML 1.0; expat knows the fourth.
        "<\u0221 \U00020000='1' \U00020001='\u0221'>\u00e9</\u0221>",
        "<x:a/>",
    ],
)
@pytest.mark.parametrize("behind", ["", "<!-- x -->", "<?x?>", "&#32;", "<![CDATA[ ]]>", "text>"])
def test_payloads_that_resemble_other_markup(payload: str, behind: str) -> None:
    document = envelope_around(payload + behind, ' xmlns:x="urn:x"')
    assert read_event(document).payload == payload.encode()


@pytest.mark.parametrize("name", ["Summary", "ApplicationType", "EventLinkage"])
def test_an_element_of_the_envelope_is_no_payload_under_any_prefix(name: str) -> None:
    document = envelope_around(f"<x:{name}/>", f' xmlns:x="{NAMESPACE}"')
    assert read_event(document).payload is None


def test_two_payloads_are_an_error() -> None:
    with pytest.raises(BadEnvelope, match="more than one payload"):
        read_event(envelope_around("<a/><b/>"))


def test_a_tree_of_another_document_is_an_error() -> None:
    root = parse_document(envelope_around("<a/>"))
    with pytest.raises(BadEnvelope, match="two parsers"):
        find_payload_bytes(envelope_around("<ab/>"), root)


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: text.encode("utf-16"),
        lambda text: text.replace("UTF-8", "UTF-16").encode("utf-16-le"),
        lambda text: text.replace("UTF-8", "ISO-8859-1").encode("latin-1"),
        lambda text: text.replace("UTF-8", "ISO-8859-1").encode("utf-8"),
        lambda text: text.encode("latin-1"),
        lambda text: text.replace("UTF-8", "US-ASCII").encode("utf-8"),
        lambda text: text.encode("utf-32"),
        lambda text: text.replace("UTF-8", "cp037").encode("cp037"),
    ],
)
def test_only_utf_8_is_read(encode: Callable[[str], bytes]) -> None:
    document, _ = event_with({"summary": "\u00e9"})
    with pytest.raises(NotWellFormed):
        read_event(encode(document.decode()))


def test_ascii_may_be_declared() -> None:
    document, payload = event_with({})
    assert read_event(document.replace(b"UTF-8", b"US-ASCII")).payload == payload


@pytest.mark.parametrize(
    "subset",
    [
        '<!ENTITY a "<b/>">',
        '<!ENTITY a SYSTEM "file:///etc/passwd">',
        '<!ENTITY % a SYSTEM "http://127.0.0.1:9/x"> %a;',
        "",
    ],
)
def test_nothing_is_expanded_or_fetched(subset: str) -> None:
    document, _ = event_with({"reason": "&a;", "before-payload": "<!-- -->"})
    subverted = document.replace(b'"x.dtd">', f'"file:///etc/passwd" [{subset}]>'.encode())
    with pytest.raises((ForbiddenMarkup, NotWellFormed)):
        read_event(subverted)


LONG: dict[str, Callable[[int], dict[str, str]]] = {
    "comments-behind-the-root": lambda n: {"after-root": "<!-- </Mspaces:Event> -->\n" * n},
    "instructions-behind-the-root": lambda n: {"after-root": "<?x ?> " * n},
    "blanks-behind-the-root": lambda n: {"after-root": " \n" * n},
    "blanks-behind-the-payload": lambda n: {"after-payload": " \n" * n},
    "ends-in-comments": lambda n: {"after-payload": "<!--</Mspaces:Event> <x> -->" * n},
    "ends-in-a-comment": lambda n: {"before-payload": f"<!--{'</Mspaces:Event> ' * n}-->"},
    "linkages-in-a-comment": lambda n: {"before-root": f"<!--{DELIMITERS[-2] * n}-->"},
    "comments-before-the-payload": lambda n: {"before-payload": "<!-- > --> \n" * n},
    "text": lambda n: {"summary": "&#62;" * n, "reason": "/>" * n + "\u00e9"},
    "references-behind-the-payload": lambda n: {"after-payload": "&#32;<?x?>" * n},
    "names-of-new-letters": lambda n: {
        "in-payload": "<\U00020000/>" * n,
        "after-payload": "<!---->",
    },
}


def processor_time(document: bytes) -> float:
    """The least of some readings."""
    taken = []
    gc.disable()
    try:
        for _ in range(5):
            before = time.process_time()
            read_event(document)
            read_linkage(document)
            taken.append(time.process_time() - before)
    finally:
        gc.enable()
    return min(taken)


@pytest.mark.parametrize("made", LONG.values(), ids=LONG)
def test_reading_takes_time_in_proportion_to_the_size(
    made: Callable[[int], dict[str, str]],
) -> None:
    small, large = (event_with(made(count))[0] for count in (1_000, 8_000))
    # Quadratic would be 64 times as long; a delayed small one lowers the ratio.
    assert processor_time(large) < 24 * processor_time(small)
