from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from lxml import etree

from broker.dtd.dtd import Dtd

Shipped = Callable[[str, str], Dtd]
Event = Callable[..., bytes]
Parse = Callable[[bytes], etree._Element]

XS = "{http://www.w3.org/2001/XMLSchema}"
V2 = "http://www.ivoa.net/xml/VOEvent/v2.0"


def version_of(packet: bytes) -> str:
    return "1.1" if b'version="1.1"' in packet[:1500] else "2.0"


def refusals(
    packets: list[bytes], shipped: Shipped, event: Event, parse: Parse
) -> list[tuple[str, bytes]]:
    dtds = {version: shipped("VOEvent", version) for version in ("1.1", "2.0")}
    found = []
    for packet in packets:
        version = version_of(packet)
        problem = dtds[version].check(parse(event(packet, "VOEvent", version)))
        if problem is not None:
            found.append((str(problem), packet[:300]))
    return found


def test_a_sample_of_real_packets_and_all_of_version_1_1_are_valid(
    voevents: list[bytes], shipped: Shipped, event: Event, parse: Parse
) -> None:
    old = [packet for packet in voevents if version_of(packet) == "1.1"]
    sample = random.Random(1).sample(voevents, 2_000)
    assert len(old) == 98
    assert refusals([*old, *sample], shipped, event, parse) == []


@pytest.mark.slow
def test_all_real_packets_are_valid(
    voevents: list[bytes], shipped: Shipped, event: Event, parse: Parse
) -> None:
    assert len(voevents) == 18_164
    assert refusals(voevents, shipped, event, parse) == []


def test_the_collected_examples_are_valid(
    shared_data: Path, shipped: Shipped, event: Event, parse: Parse
) -> None:
    files = sorted((shared_data / "voevent" / "fixtures-voevent-parse").glob("*.xml"))
    assert len(files) == 6
    assert refusals([file.read_bytes() for file in files], shipped, event, parse) == []


def test_a_real_packet_of_one_version_is_not_valid_in_the_other(
    voevents: list[bytes], shipped: Shipped, event: Event, parse: Parse
) -> None:
    for version, other in (("1.1", "2.0"), ("2.0", "1.1")):
        packet = next(packet for packet in voevents if version_of(packet) == version)
        problem = shipped("VOEvent", other).check(parse(event(packet, "VOEvent", other)))
        assert problem is not None
        assert "namespace" in problem.text


def test_a_real_packet_gets_the_schemas_defaults(
    voevents: list[bytes], shipped: Shipped, event: Event, parse: Parse
) -> None:
    packet = next(
        packet for packet in voevents if packet.count(b"<Param ") > 20 and b"v2.0" in packet
    )
    root = parse(event(packet, "VOEvent", "2.0"))
    without = len(root.findall(".//Param"))
    shipped("VOEvent", "2.0").apply_defaults(root)
    assert without > 10
    assert len(root.findall(".//Param[@dataType]")) == without


@pytest.mark.parametrize("version", ["1.1", "2.0"])
@pytest.mark.parametrize(
    "payload",
    [
        '<voe:VOEvent xmlns:voe="{ns}" version="{v}" ivorn="i"><Who/></voe:VOEvent>',
        '<v:VOEvent xmlns:v="{ns}" version="{v}" ivorn="i"><Who/></v:VOEvent>',
        '<VOEvent xmlns="{ns}" version="{v}" ivorn="i"><Who xmlns=""/></VOEvent>',
        '<VOEvent xmlns="{ns}" version="{v}" ivorn="i"><Who/></VOEvent>',
        '<VOEvent version="{v}" ivorn="i"><Who/></VOEvent>',
        '<VOEvent xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" version="{v}" ivorn="i" '
        'xsi:schemaLocation="a b" xsi:noNamespaceSchemaLocation="c" xsi:type="d"/>',
        '<VOEvent version="{v}" ivorn="i"><What><Param '
        'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="Param"/></What></VOEvent>',
    ],
)
def test_the_root_may_be_spelt_in_each_way_that_the_schema_allows(
    payload: str, version: str, shipped: Shipped, event: Event, parse: Parse
) -> None:
    namespace = f"http://www.ivoa.net/xml/VOEvent/v{version}"
    written = payload.format(ns=namespace, v=version).encode()
    assert shipped("VOEvent", version).check(parse(event(written, "VOEvent", version))) is None


@pytest.mark.parametrize(
    "payload",
    [
        '<voe:VOEvent xmlns:voe="urn:other" version="{v}" ivorn="i"/>',
        '<VOEvent version="{v}"/>',
        '<VOEvent ivorn="i"/>',
        '<VOEvent version="{v}" ivorn="i" role="rumour"/>',
        '<VOEvent version="{v}" ivorn="i"><When/></VOEvent>',
        '<VOEvent version="{v}" ivorn="i"><Who><Param/></Who></VOEvent>',
        '<VOEvent version="{v}" ivorn="i"><What>text</What></VOEvent>',
        '<VOEvent version="{v}" ivorn="i"><What><Param type="x"/></What></VOEvent>',
        '<VOEvent version="{v}" ivorn="i"><Reference/></VOEvent>',
        '<VOEvent version="{v}" ivorn="i"><Citations><EventIVORN cite="no"/></Citations></VOEvent>',
    ],
)
@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_an_invalid_voevent_is_refused(
    payload: str, version: str, shipped: Shipped, event: Event, parse: Parse
) -> None:
    namespace = f"http://www.ivoa.net/xml/VOEvent/v{version}"
    written = payload.format(ns=namespace, v=version).encode()
    assert shipped("VOEvent", version).check(parse(event(written, "VOEvent", version))) is not None


def test_coordinates_of_1_1_may_have_the_prefix_stc(
    shipped: Shipped, event: Event, parse: Parse
) -> None:
    payload = (
        b'<voe:VOEvent xmlns:voe="http://www.ivoa.net/xml/VOEvent/v1.1" version="1.1" ivorn="i">'
        b'<WhereWhen><stc:ObsDataLocation xmlns:stc="http://www.ivoa.net/xml/STC/stc-v1.30.xsd">'
        b'<stc:ObservatoryLocation id="x"/><stc:ObservationLocation>'
        b'<stc:AstroCoords coord_system_id="y"><stc:Time unit="s"><stc:TimeInstant>'
        b"<stc:ISOTime>2006-05-15T02:27:52</stc:ISOTime></stc:TimeInstant></stc:Time>"
        b"</stc:AstroCoords></stc:ObservationLocation></stc:ObsDataLocation></WhereWhen>"
        b"</voe:VOEvent>"
    )
    assert shipped("VOEvent", "1.1").check(parse(event(payload, "VOEvent", "1.1"))) is None


class SchemaWriter:
    """Writes random documents by an XML Schema.

    Supports all, choice, sequence, enumerations and simple types.
    """

    VALUES = {
        "anyURI": ["ivo://a/b#1", "", "http://x.example/?a=1&b"],
        "dateTime": ["2014-04-30T15:06:52", "2014-04-30T15:06:52.1Z"],
        "float": ["1", "-1.5e3", "NaN", "INF", " 0.5 "],
        "string": ["text", "", "  a < b & c  ", "é", "true"],
        "token": ["2.0", " 2.0 "],
        "ID": ["x1", "a-b"],
        "smallFloat": ["0", "0.25", "1.0"],
    }

    def __init__(self, schema: etree._Element, seed: int) -> None:
        self._random = random.Random(seed)
        self._types = {
            kind.get("name"): kind
            for kind in schema
            if kind.tag in (f"{XS}complexType", f"{XS}simpleType")
        }
        self._root = schema.find(f"{XS}element")

    def document(self) -> bytes:
        root = etree.Element(f"{{{V2}}}VOEvent", nsmap={"voe": V2})
        assert self._root is not None
        self._fill(root, self._root.find(f"{XS}complexType"), 0)
        if self._random.random() < 0.5:
            return etree.tostring(root)
        # A default namespace, reset by each child of the root.
        for child in root.iterchildren(etree.Element):
            child.set("reset", "")
        written = etree.tostring(root).replace(b' reset=""', b' xmlns=""')
        return written.replace(b"voe:VOEvent", b"VOEvent").replace(b"xmlns:voe=", b"xmlns=")

    def _fill(self, element: etree._Element, kind: etree._Element | None, depth: int) -> None:
        assert kind is not None
        for attribute in kind.iter(f"{XS}attribute"):
            if attribute.get("use") == "required" or self._random.random() < 0.5:
                element.set(attribute.get("name") or "", self._value(attribute.get("type") or ""))
        if kind.find(f"{XS}simpleContent") is not None:
            element.text = self._value("xs:string")
        for child in kind:
            if child.tag in (f"{XS}all", f"{XS}choice", f"{XS}sequence"):
                self._group(element, child, depth)
        if self._random.random() < 0.1:
            element.append(etree.Comment("a remark"))
        if len(element) and element.text is None and self._random.random() < 0.3:
            element.text = "\n  "

    def _group(self, element: etree._Element, group: etree._Element, depth: int) -> None:
        members = [member for member in group if member.tag == f"{XS}element"]
        if group.tag == f"{XS}all":
            self._random.shuffle(members)
        if group.tag == f"{XS}choice":
            few = 1 if depth > 4 else 4
            members = self._random.choices(members, k=self._random.randint(1, few))
        for member in members:
            least = int(member.get("minOccurs", "1"))
            most = {"unbounded": 3}.get(member.get("maxOccurs", "1"), 1)
            if depth > 6:
                most = least
            for _ in range(self._random.randint(least, max(least, most))):
                child = etree.SubElement(element, member.get("name") or "")
                kind = member.find(f"{XS}complexType")
                if kind is None:
                    kind = self._types.get(member.get("type"))
                if kind is None or kind.tag == f"{XS}simpleType":
                    child.text = self._value(member.get("type") or "")
                else:
                    self._fill(child, kind, depth + 1)

    def _value(self, kind: str) -> str:
        if kind in self._types and kind != "smallFloat":
            listed = [each.get("value") for each in self._types[kind].iter(f"{XS}enumeration")]
            return str(self._random.choice(listed))
        return self._random.choice(self.VALUES[kind.removeprefix("xs:")])


def test_the_dtd_accepts_all_documents_of_the_schema(
    shared_data: Path, shipped: Shipped, event: Event, parse: Parse
) -> None:
    source = etree.parse(str(shared_data / "voevent" / "VOEvent-v2.0.xsd"))
    schema, dtd = etree.XMLSchema(source), shipped("VOEvent", "2.0")
    accepted = 0
    for seed in range(1_500):
        payload = SchemaWriter(source.getroot(), seed).document()
        if schema.validate(etree.fromstring(payload)):
            accepted += 1
            problem = dtd.check(parse(event(payload, "VOEvent", "2.0")))
            assert problem is None, f"seed {seed}: {problem}\n{payload.decode()}"
    # The schema rejects white space in an element without content.
    assert accepted > 1_200
