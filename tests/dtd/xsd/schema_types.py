"""Event types with a schema, for tests."""

from __future__ import annotations

from pathlib import Path

from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference
from broker.dtd.xsd.bundle import SchemaBundle, write_instruction
from broker.dtd.xsd.table_process import shared_tables

XSD = (
    '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" elementFormDefault="qualified"%s>%s\n'
    "</xs:schema>"
)
DRIVER = """<!ENTITY % Mspaces.content ", (ROOT)?">
<!ENTITY % Mspaces.envelope
         PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN" "mspaces-1.1.mod">
%Mspaces.envelope;
"""
FLIGHT_XSD = """
<xs:element name="flight"><xs:complexType><xs:sequence>
  <xs:element name="altitude" type="altitude"/>
  <xs:element name="note" minOccurs="0"/>
</xs:sequence><xs:attribute name="state" type="state"/></xs:complexType></xs:element>
<xs:simpleType name="altitude"><xs:restriction base="xs:int">
  <xs:maxInclusive value="600"/>
</xs:restriction></xs:simpleType>
<xs:simpleType name="state"><xs:restriction base="xs:string">
  <xs:enumeration value="up"/><xs:enumeration value="down"/>
</xs:restriction></xs:simpleType>"""
FLIGHT_DTD = (
    DRIVER.replace("ROOT", "flight")
    + """<!ELEMENT flight ANY><!ATTLIST flight state CDATA "up" more CDATA "supplied">
<!ELEMENT altitude (#PCDATA)><!ELEMENT note (#PCDATA)>"""
)
#: The second pattern accepts each value, after the first one has taken long.
SLOW_XSD = """
<xs:element name="flight"><xs:complexType><xs:sequence>
  <xs:element name="v" maxOccurs="unbounded"><xs:simpleType><xs:restriction base="xs:string">
    <xs:pattern value=".*.*.*.*.*.*x"/><xs:pattern value=".*"/>
  </xs:restriction></xs:simpleType></xs:element>
</xs:sequence></xs:complexType></xs:element>"""
#: libxml2 compares each two elements of a content model.
SLOW_TO_COMPILE = "".join(
    f'<xs:element name="a{n}"><xs:complexType><xs:sequence>'
    + "".join(f'<xs:element name="c{m}" minOccurs="0"/>' for m in range(1_500))
    + "</xs:sequence></xs:complexType></xs:element>"
    for n in range(3)
)


def slow_payload(values: int) -> bytes:
    """Return a valid payload whose values take some 0.1 s each."""
    return b"<flight>%b</flight>" % (b"<v>%b</v>" % (b"a" * 36) * values)


def xsd(body: str, attributes: str = "") -> bytes:
    return (XSD % (attributes, body)).encode()


def with_schema(dtd: str, *files: tuple[str, bytes]) -> bytes:
    """Return the text of a type with a DTD and the files of a schema, the main one first."""
    return dtd.encode() + write_instruction(SchemaBundle(files).pack())


def load(text: bytes, name: str = "flight", version: str = "1.0") -> Dtd:
    return Dtd.load(DtdReference(name, version), text, Catalogue.load(shipped_folder()).read)


def flight_text() -> bytes:
    return with_schema(FLIGHT_DTD, ("flight.xsd", xsd(FLIGHT_XSD)))


def write_files(folder: Path, **contents: bytes) -> None:
    folder.mkdir(exist_ok=True)
    for name, content in contents.items():
        (folder / f"{name}.xsd").write_bytes(content)


def await_slot_types(dtd: Dtd) -> Dtd:
    """Return the DTD when its table of types is read."""
    assert dtd.schema is not None
    while dtd.schema.slot_types is None:
        shared_tables().wait()
    return dtd
