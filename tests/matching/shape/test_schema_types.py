"""Events of types with a schema: what the schema refuses is never recognised by a shape."""

from __future__ import annotations

import random
import re
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from lxml import etree

from broker.dtd.dtd import Dtd
from broker.dtd.xsd.bundle import read_schema_files, write_instruction
from broker.event.envelope import EventType
from broker.event.event_id import EventIdGenerator
from broker.event.stream import StreamPattern
from broker.event.writer import write_event
from broker.matching.contract import Accepted, Refused
from broker.matching.query.query import parse_query
from broker.matching.shape.bounds import ShapeBounds
from broker.matching.switch import Switch
from tests.dtd.xsd.schema_types import (
    DRIVER,
    FLIGHT_DTD,
    await_slot_types,
    flight_text,
    load,
    with_schema,
    xsd,
)
from tests.dtd.xsd.test_slot_types import MOMENTS, NUMBERS, TEXTS
from tests.matching.conftest import KnownDtds, event
from tests.matching.shape.oracle import CheckedCache
from tests.matching.shape.test_mutations import match_mutations

ALL = StreamPattern.parse(">")
#: Of the payload.
VALUE = re.compile(rb'(?<=[nytefs]=")[^"<>]*(?=")|(?<=>)[^<>]*(?=</[a-z])')
FACETS = """
<xs:simpleType name="code"><xs:restriction base="xs:string">
  <xs:pattern value="[A-Z]{2,3}"/><xs:pattern value="\\d+x"/></xs:restriction></xs:simpleType>
<xs:simpleType name="level"><xs:restriction base="xs:int">
  <xs:minInclusive value="-10"/><xs:maxExclusive value="600"/></xs:restriction></xs:simpleType>
<xs:simpleType name="word"><xs:restriction base="xs:token">
  <xs:enumeration value="up"/><xs:enumeration value="down"/></xs:restriction></xs:simpleType>
<xs:simpleType name="short"><xs:restriction base="xs:string">
  <xs:minLength value="1"/><xs:maxLength value="6"/></xs:restriction></xs:simpleType>
<xs:simpleType name="amount"><xs:restriction base="xs:decimal">
  <xs:totalDigits value="4"/><xs:fractionDigits value="2"/></xs:restriction></xs:simpleType>
<xs:simpleType name="list"><xs:list itemType="xs:int"/></xs:simpleType>
<xs:simpleType name="either"><xs:union memberTypes="xs:int word"/></xs:simpleType>
<xs:complexType name="point"><xs:sequence>
  <xs:element name="v" type="xs:int"/></xs:sequence></xs:complexType>
<xs:complexType name="place"><xs:complexContent><xs:extension base="point"><xs:sequence>
  <xs:element name="w" type="word"/></xs:sequence></xs:extension></xs:complexContent>
</xs:complexType>
<xs:complexType name="near"><xs:complexContent><xs:restriction base="point"><xs:sequence>
  <xs:element name="v" type="level"/></xs:sequence></xs:restriction></xs:complexContent>
</xs:complexType>
<xs:element name="head" type="point"/>
<xs:element name="member" substitutionGroup="head" type="place"/>
<xs:element name="free" type="xs:date"/>
<xs:element name="any"><xs:complexType><xs:sequence>
  <xs:any processContents="lax" maxOccurs="unbounded"/></xs:sequence></xs:complexType></xs:element>
<xs:element name="made"><xs:complexType>
  <xs:sequence>
    <xs:element name="code" type="code"/>
    <xs:element name="v" type="level"/>
    <xs:element name="w" type="word" minOccurs="0"/>
    <xs:element name="short" type="short"/>
    <xs:element name="amount" type="amount"/>
    <xs:element name="list" type="list"/>
    <xs:element name="either" type="either"/>
    <xs:element name="flag" type="xs:boolean"/>
    <xs:element name="time" type="xs:dateTime"/>
    <xs:element name="ratio" type="xs:double"/>
    <xs:element name="text" type="xs:string" nillable="true"/>
    <xs:element name="fixed" type="xs:string" fixed="so"/>
    <xs:element name="mixed" minOccurs="0"><xs:complexType mixed="true"><xs:sequence>
      <xs:element name="v" type="xs:int" minOccurs="0"/></xs:sequence></xs:complexType></xs:element>
    <xs:element ref="head" maxOccurs="2"/>
    <xs:element ref="any" minOccurs="0"/>
    <xs:element name="measure"><xs:complexType><xs:simpleContent>
      <xs:extension base="amount"><xs:attribute name="unit" type="word" use="required"/>
      <xs:attribute name="n" type="level"/></xs:extension>
    </xs:simpleContent></xs:complexType></xs:element>
  </xs:sequence>
  <xs:attribute name="key" type="xs:ID"/><xs:attribute name="ref" type="xs:IDREF"/>
  <xs:attribute name="day" type="xs:date"/><xs:attribute name="note"/>
  <xs:attribute name="always" type="xs:int" fixed="7"/>
</xs:complexType></xs:element>"""
NAMES = (
    *("made", "code", "v", "w", "short", "amount", "list", "either", "flag", "time", "ratio"),
    *("text", "fixed", "mixed", "head", "member", "free", "any", "measure"),
)
MADE_DTD = DRIVER.replace("ROOT", "made") + "".join(
    f"<!ELEMENT {name} ANY><!ATTLIST {name} xmlns:xsi CDATA #IMPLIED xsi:type CDATA #IMPLIED "
    "xsi:nil CDATA #IMPLIED key CDATA #IMPLIED ref CDATA #IMPLIED day CDATA #IMPLIED "
    "note CDATA #IMPLIED always CDATA #IMPLIED unit CDATA #IMPLIED n CDATA #IMPLIED>"
    for name in NAMES
)


def made_payload(structure: int, values: int) -> bytes:
    """Return a valid payload. Equal `structure` gives equal tags."""
    chance, shape = random.Random(values), random.Random(structure)
    pick, number = chance.choice, chance.randrange
    # Few documents have values that no check accepts.
    odd = chance.random() < 0.2
    day = f"2024-{number(1, 13):02}-{number(1, 29):02}"
    parts = [
        f"<code>{pick(['AB', 'XYZ', f'{number(99)}x'])}</code><v>{number(-10, 600)}</v>",
        shape.choice(["", f"<w>{' up ' if odd else pick(['up', 'down'])}</w>"]),
        f"<short>{'é' if odd else pick(['a', 'abc', 'x y z'])}</short>",
        f"<amount>{'+1' if odd else pick(['1', '12.5', '-3.25', '99.99'])}</amount>",
        f"<list>{'3' if odd else '1 2'}</list><either>{'up' if odd else '5'}</either>",
        f"<flag>{pick(['true', '0'])}</flag>",
        f"<time>{day}T{number(24):02}:{number(60):02}:00{pick(['', 'Z', '.5+02:00'])}</time>",
        f"<ratio>{'INF' if odd else pick(['0.5', '12', '-7.25'])}</ratio>",
        shape.choice([f"<text>t{number(999)}</text>", '<text xsi:nil="true"/>']),
        "<fixed>so</fixed>",
        shape.choice(["", "<mixed>some text</mixed>", f"<mixed>a<v>{number(99)}</v>b</mixed>"]),
        shape.choice(
            [
                f"<head><v>{number(10**6)}</v></head>",
                f'<head xsi:type="place"><v>{number(2)}</v><w>up</w></head>',
                f'<head xsi:type="near"><v>{number(2)}</v></head>',
                f"<member><v>{number(10**6)}</v><w>{pick(['up', 'down'])}</w></member>",
            ]
        ),
        shape.choice(["", "<any><free>2024-01-01</free></any>", "<any><v>1</v></any>"]),
        f'<measure unit="{pick(["up", "down"])}" n="{number(-10, 600)}">{number(99)}.5</measure>',
    ]
    attributes = shape.choice(
        ["", f' day="{day}"', f' note="n{number(99)}" always="7"', ' key="a" ref="a"']
    )
    xsi = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    return f"<made {xsi}{attributes}>{''.join(parts)}</made>".encode()


@pytest.fixture(scope="module")
def flight() -> Dtd:
    return await_slot_types(load(flight_text()))


@pytest.fixture(scope="module")
def made() -> Dtd:
    text = with_schema(MADE_DTD, ("made.xsd", xsd(FACETS)))
    return await_slot_types(load(text, "made"))


def altitude(value: object) -> bytes:
    return event(f"<flight><altitude>{value}</altitude></flight>".encode())


def test_only_values_that_the_schema_allows_are_recognised(flight: Dtd) -> None:
    engine = Switch(KnownDtds(flight), clock=lambda: 0.0)
    low = engine.subscribe(ALL, parse_query("/flight/altitude < 100"))
    for number in range(10):
        (good,) = engine.match([altitude(number * 50)])
        assert isinstance(good, Accepted)
        assert good.subscriptions == ((low,) if number < 2 else ())
    assert engine.statistics()["recognised"] == 8
    for bad in (601, 99999999999, "x", "1.5", "--1", "1 2"):
        (verdict,) = engine.match([altitude(bad)])
        assert isinstance(verdict, Refused), bad
        assert "(schema of flight 1.0)" in verdict.error.text
    # The check does not know these valid values: they are parsed.
    for odd in ("+7", " 7 ", "007"):
        assert isinstance(engine.match([altitude(odd)])[0], Accepted)
    assert engine.statistics()["recognised"] == 8


def test_an_event_is_refused_though_no_type_is_known_yet(tmp_path: Path) -> None:
    dtd = load(with_schema(FLIGHT_DTD + "<!-- other -->", ("other.xsd", xsd(""))))
    engine = Switch(KnownDtds(dtd), clock=lambda: 0.0)
    for _ in range(4):
        assert isinstance(engine.match([altitude(1)])[0], Refused)


@pytest.mark.parametrize(
    "constraint",
    [
        '<xs:unique name="u"><xs:selector xpath="*"/><xs:field xpath="."/></xs:unique>',
        '<xs:key name="u"><xs:selector xpath="v"/><xs:field xpath="."/></xs:key>',
    ],
)
def test_a_type_whose_values_depend_on_each_other_has_no_shapes(constraint: str) -> None:
    body = (
        '<xs:element name="made"><xs:complexType><xs:sequence><xs:element name="v" '
        f'type="xs:int" maxOccurs="9"/></xs:sequence></xs:complexType>{constraint}</xs:element>'
    )
    dtd = await_slot_types(load(with_schema(MADE_DTD, ("made.xsd", xsd(body))), "made"))
    engine = Switch(KnownDtds(dtd), clock=lambda: 0.0)
    for number in range(6):
        payload = b"<made><v>%d</v><v>%d</v></made>"
        (good,) = engine.match([event(payload % (number, number + 1), type_name="made")])
        (bad,) = engine.match([event(payload % (number, number), type_name="made")])
        assert isinstance(good, Accepted) and isinstance(bad, Refused)
    assert engine.statistics()["recognised"] == 0


HEAD = "<head><v>5</v></head>"


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ('<head xsi:type="near"><v>{}</v></head>', "700"),
        ('<head xsi:type="place"><v>1</v><w>{}</w></head>', "sideways"),
        ("<member><v>{}</v><w>up</w></member>", "x"),
        (HEAD + "<any><free>2024-01-{}</free></any>", "40"),
        (HEAD + "<mixed>{}<v>{}</v></mixed>", "x"),
    ],
)
def test_an_invalid_value_is_refused_where_its_type_depends_on_the_place(
    made: Dtd, inside: str, outside: str
) -> None:
    whole = made_payload(0, 0).decode()
    start, end = whole.index("<fixed>so</fixed>") + 17, whole.index("<measure")
    if "<mixed>" in inside:
        inside = inside.removeprefix(HEAD) + HEAD
    engine = Switch(KnownDtds(made), clock=lambda: 0.0)

    def match(value: object) -> object:
        payload = whole[:start] + inside.replace("{}", str(value)) + whole[end:]
        return engine.match([event(payload.encode(), type_name="made")])[0]

    good = ["up", "down"] if outside == "sideways" else ["10", "11", "12"]
    for value in good * 4:
        assert isinstance(match(value), Accepted)
    assert isinstance(match(outside), Refused)


@pytest.mark.parametrize("seed", range(2))
def test_changed_documents_of_a_schema_with_all_kinds_of_types(made: Dtd, seed: int) -> None:
    chance, mint = random.Random(seed), EventIdGenerator("feed", 1)
    structures = [chance.randrange(2**32) for _ in range(5)]
    documents = [
        write_event(mint.next_id(1), "s", EventType("made", "1.0"), made_payload(structure, value))
        for value in range(30)
        for structure in structures
    ]
    checked = CheckedCache(made, bounds=ShapeBounds(max_variants=3))
    match_mutations(checked, documents, 700, seed)
    accepted, candidates = checked.accepted, [*NUMBERS, *TEXTS, *chance.sample(MOMENTS, 50)]
    for _ in range(800):
        document = chance.choice(documents)
        start, end = chance.choice(list(VALUE.finditer(document))).span()
        value = escape(chance.choice(candidates)).encode()
        checked.meet(document[:start] + value + document[end:])
    assert 60 < checked.accepted - accepted < 700


def test_changed_alerts(shared_data: Path) -> None:
    """Alerts of CAP 1.2, with other values of all kinds."""
    folder = shared_data / "cap-google"
    namespace = b"urn:oasis:names:tc:emergency:cap:1.2"
    schema = read_schema_files([folder / "cap12.xsd"])
    names = sorted(set(re.findall(rb'element name="(\w+)"', schema.files[0][1])))
    declared = b"".join(b"<!ELEMENT %b ANY>\n" % name for name in names)
    head = DRIVER.replace("ROOT", "alert").encode()
    xmlns = b'<!ATTLIST alert xmlns CDATA #FIXED "%b">' % namespace
    text = head + declared + xmlns + write_instruction(schema.pack())
    dtd = await_slot_types(load(text, "cap"))
    chance, mint, documents = random.Random(1), EventIdGenerator("feed", 1), list[bytes]()
    for file in sorted(folder.glob("*.cap")):
        alert = re.sub(rb"emergency:cap:1\.[01]", b"emergency:cap:1.2", file.read_bytes())
        try:
            root = etree.fromstring(alert, etree.XMLParser(remove_comments=True))
        except etree.XMLSyntaxError:
            continue
        for number in range(8):
            for element in root.iter("{*}sent", "{*}effective", "{*}expires", "{*}onset"):
                element.text = f"2024-01-{number + 10}T12:{number + 10}:00-07:00"
            for element in root.iter("{*}identifier", "{*}headline", "{*}altitude"):
                element.text = str(chance.randrange(1_000))
            payload = etree.tostring(root, encoding="unicode", with_tail=False).encode()
            document = write_event(mint.next_id(1), "cap", EventType("cap", "1.0"), payload)
            if dtd.check(etree.fromstring(document)) is None:
                documents.append(document)
    assert len(documents) > 20
    match_mutations(CheckedCache(dtd), documents, 700, 7)
