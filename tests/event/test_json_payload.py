"""JSON as XML by the mapping of XPath 3.1, and back."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference
from broker.event.envelope import EventType
from broker.event.event_id import EventId
from broker.event.json_payload import (
    MAX_DEPTH,
    NAMESPACE,
    JsonNumber,
    JsonObject,
    JsonValue,
    NotMapped,
    json_to_xml,
    parse_json,
    xml_to_json,
)
from broker.event.writer import write_event


def to_xml(text: str) -> bytes:
    ((value, _),) = parse_json(text)
    return json_to_xml(value)


def to_json(xml: bytes | str) -> str:
    return xml_to_json(etree.fromstring(xml))


def mapped(content: str, *, name: str = "map", attributes: str = "") -> str:
    return f'<{name} xmlns="{NAMESPACE}"{attributes}>{content}</{name}>'


@pytest.fixture(scope="module")
def dtd() -> Dtd:
    catalogue = Catalogue.load(shipped_folder())
    reference = DtdReference("json", "1.0")
    text = catalogue.read(reference.public_id, reference.system_id)
    assert text is not None
    return Dtd.load(reference, text, catalogue.read)


TEXTS = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from(
            '\\"/&<>]\r\n\t\b\f\x00\x1f\x7f\x85\ud800\udfff\ufffe\uffff\u2028\U0001f600'
        ),
    ),
    max_size=12,
)
NUMBERS = st.sampled_from(
    [
        "0",
        "-0",
        "1.10",
        "1E400",
        "0.1000000000000000055",
        "12345678901234567890123",
        "-1e-7",
        "5E+2",
    ]
)


def objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[JsonObject]:
    members = st.lists(st.tuples(TEXTS, values), max_size=4, unique_by=lambda member: member[0])
    return members.map(lambda found: JsonObject(tuple(found)))


VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | TEXTS | NUMBERS.map(JsonNumber),
    lambda values: st.lists(values, max_size=4) | objects(values),
    max_leaves=12,
)


@settings(max_examples=300)
@given(VALUES)
def test_json_survives_the_way_to_xml_and_back(dtd: Dtd, value: JsonValue) -> None:
    xml = json_to_xml(value)
    document = write_event(EventId("p", 1, 1, 1), "json", EventType("json", "1.0"), xml)
    assert dtd.check(etree.fromstring(document)) is None
    line = to_json(xml)
    line.encode()
    assert "\n" not in line
    assert list(parse_json(line)) == [(value, 1)]


def test_the_example_of_the_specification() -> None:
    assert to_xml('{"a": [1.50, null, true], "b\\n\\"": "x<\\r"}').decode() == mapped(
        '<array key="a"><number>1.50</number><null/><boolean>true</boolean></array>'
        '<string key="b&#10;&quot;">x&lt;&#13;</string>'
    )
    assert to_xml('"a\\u0000\\\\b\\n/\\"\\ud834\\udd1e"').decode() == mapped(
        'a\\u0000\\\\b\\n/"\U0001d11e', name="string", attributes=' escaped="true"'
    )
    assert to_xml('{"\\ud800": ""}').decode() == mapped(
        '<string key="\\uD800" escaped-key="true"></string>'
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "\\u0061": 2}', "an object has the key 'a' twice"),
        ("[NaN]", "NaN is no number of JSON"),
        ("[-Infinity]", "-Infinity is no number"),
        ('["\x01"]', "not JSON: Invalid control character"),
        ("[01]", "not JSON"),
        ("{'a': 1}", "not JSON"),
        ("[1,]", "not JSON"),
        ("[" * 100_000, f"more than {MAX_DEPTH} values"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), f"more than {MAX_DEPTH} values"),
    ],
)
def test_other_texts_are_refused(text: str, reason: str) -> None:
    with pytest.raises(NotMapped, match=reason):
        to_xml(text)


def test_the_greatest_depth_is_a_valid_event(dtd: Dtd) -> None:
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    xml = to_xml(text)
    document = write_event(EventId("p", 1, 1, 1), "json", EventType("json", "1.0"), xml)
    assert dtd.check(etree.fromstring(document)) is None
    assert to_json(xml) == text


@pytest.mark.parametrize(
    ("xml", "reason"),
    [
        ("<a/>", "<a> is no element of the mapping"),
        (mapped("<number>1</number>"), "<number> has no key"),
        (mapped('<null key="a"/><null key="a"/>'), "has the key 'a' of another one"),
        (
            mapped('<null key="a"/><null key="\\u0061" escaped-key="true"/>'),
            "has the key 'a' of another one",
        ),
        (mapped("x", name="array"), "<array> has text"),
        (mapped("<null/>", name="string"), "<string> has an element inside"),
        (mapped('1,"x":2', name="number"), "<number> can not be '1,\"x\":2'"),
        (mapped("INF", name="number"), "<number> can not be 'INF'"),
        (mapped("yes", name="boolean"), "<boolean> can not be 'yes'"),
        (
            mapped("\\x", name="string", attributes=' escaped="true"'),
            "an escape that JSON does not",
        ),
        (mapped("\\", name="string", attributes=' escaped="1"'), "an escape that JSON does not"),
    ],
)
def test_an_element_that_is_not_mapped_is_refused(xml: str, reason: str) -> None:
    with pytest.raises(NotMapped, match=reason.replace("\\", "\\\\")):
        to_json(xml)


def test_xml_of_others_is_read_as_the_specification_allows() -> None:
    xml = mapped(
        '\n <j:number key="a"> 1.0 </j:number> <!-- c -->'
        '<j:string key="b" escaped=" 1 ">\\u00e9"\\/&#10;\\\\</j:string>'
        '<j:boolean key="c">0</j:boolean>',
        attributes=f' xmlns:j="{NAMESPACE}"',
    )
    assert json.loads(to_json(xml)) == {"a": 1.0, "b": 'é"/\n\\', "c": False}


def test_numbers_are_those_of_python_too() -> None:
    for number in (0.1, 1e300, -7, math.pi):
        assert json.loads(to_json(to_xml(json.dumps(number)))) == number
