from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from lxml import etree

from broker.dtd.catalogue import Catalogue
from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference
from broker.errors import BadDtd

Shipped = Callable[[str, str], Dtd]
Event = Callable[..., bytes]
Parse = Callable[[bytes], etree._Element]

MSPACES = "{urn:xmlbroker:mspaces}"
INCLUDE = (
    '<!ENTITY % m PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.0//EN" "mspaces-1.0.mod">%m;'
)


def with_payload(declarations: str, catalogue: Catalogue) -> Dtd:
    text = f'<!ENTITY % Mspaces.content ", a">{INCLUDE}{declarations}'
    return Dtd.load(DtdReference("a", "1"), text.encode(), catalogue.read)


def test_the_envelope_is_live_and_of_medium_security_by_default(
    shipped: Shipped, event: Event, parse: Parse, flight: bytes
) -> None:
    root = parse(event(flight))
    event_type = root.find(f"{MSPACES}EventType")
    assert event_type is not None and not event_type.attrib
    shipped("flight", "1.0").apply_defaults(root)
    assert dict(event_type.items()) == {"Securitylevel": "med", "Liveness": "live"}


def test_attributes_of_the_document_stay(
    shipped: Shipped, event: Event, parse: Parse, flight: bytes
) -> None:
    root = parse(event(flight, event_type=b' Securitylevel="high"'))
    shipped("flight", "1.0").apply_defaults(root)
    event_type = root.find(f"{MSPACES}EventType")
    assert event_type is not None
    assert dict(event_type.items()) == {"Securitylevel": "high", "Liveness": "live"}


def test_defaults_are_applied_to_a_payload_on_its_own_too(shipped: Shipped) -> None:
    payload = etree.fromstring(
        '<voe:VOEvent xmlns:voe="http://www.ivoa.net/xml/VOEvent/v2.0" version="2.0" ivorn="i">'
        '<What><Param name="p"/><Param name="q" dataType="int"/></What></voe:VOEvent>'
    )
    shipped("VOEvent", "2.0").apply_defaults(payload)
    assert payload.xpath("string(@role)") == "observation"
    assert payload.xpath("What/Param/@dataType") == ["string", "int"]


def test_no_namespace_declaration_is_added(
    shipped: Shipped, event: Event, parse: Parse, flight: bytes
) -> None:
    root = parse(event(flight))
    maps = [element.nsmap for element in root.iter()]
    shipped("flight", "1.0").apply_defaults(root)
    assert [element.nsmap for element in root.iter()] == maps


def test_a_default_belongs_to_the_prefix_that_the_dtd_names(catalogue: Catalogue) -> None:
    dtd = with_payload(
        '<!ELEMENT a (b|p:b)*><!ELEMENT b ANY><!ATTLIST b x CDATA "1"><!ELEMENT p:b ANY>', catalogue
    )
    payload = etree.fromstring('<a xmlns:p="u"><b/><p:b/><b xmlns="u"/></a>')
    dtd.apply_defaults(payload)
    assert [child.get("x") for child in payload] == ["1", None, "1"]


def test_a_default_with_a_prefix_is_put_into_the_fixed_namespace(catalogue: Catalogue) -> None:
    dtd = with_payload(
        '<!ELEMENT a EMPTY><!ATTLIST a xmlns:k CDATA #FIXED "urn:k" k:x CDATA "1" '
        'k:y CDATA #FIXED "2" xml:space (default|preserve) "preserve">',
        catalogue,
    )
    payload = etree.fromstring('<a xmlns:k="urn:k" k:x="0"/>')
    dtd.apply_defaults(payload)
    assert dict(payload.items()) == {
        "{urn:k}x": "0",
        "{urn:k}y": "2",
        "{http://www.w3.org/XML/1998/namespace}space": "preserve",
    }


def test_a_default_whose_prefix_has_no_namespace_is_refused(catalogue: Catalogue) -> None:
    with pytest.raises(BadDtd, match="no #FIXED xmlns:k"):
        with_payload('<!ELEMENT a EMPTY><!ATTLIST a k:x CDATA "1">', catalogue)


def test_a_dtd_gives_what_a_validating_parser_gives(catalogue: Catalogue, tmp_path: Path) -> None:
    """The oracle is libxml2 with attribute defaults on."""
    attlist = (
        '<!ATTLIST a plain CDATA "x" empty CDATA "" amp CDATA "1&amp;2&#60;3&lt;4&quot;5\'6" '
        'spaced CDATA " a  b " broken CDATA "a\n\tb" characters CDATA "a&#10;b&#9;c" '
        'twice CDATA "&#38;amp;" tokens NMTOKENS "  p   q " one (p | q) "q" '
        'fixed CDATA #FIXED "f" implied CDATA #IMPLIED '
        'other CDATA \'say "hi"\' accents CDATA "Žluť">'
    )
    (tmp_path / "a.dtd").write_text(f"<!ELEMENT a EMPTY>{attlist}", encoding="utf-8")
    (tmp_path / "a.xml").write_text('<!DOCTYPE a SYSTEM "a.dtd"><a/>')
    parser = etree.XMLParser(load_dtd=True, attribute_defaults=True, no_network=True)
    expected = etree.parse(str(tmp_path / "a.xml"), parser).getroot()
    payload = etree.fromstring("<a/>")
    with_payload(f"<!ELEMENT a EMPTY>{attlist}", catalogue).apply_defaults(payload)
    assert dict(payload.items()) == dict(expected.items())
    assert len(payload.attrib) == 12


def test_where_no_element_has_defaults_nothing_happens(shipped: Shipped) -> None:
    payload = etree.fromstring("<flight><id/></flight>")
    shipped("flight", "1.0").apply_defaults(payload)
    assert etree.tostring(payload) == b"<flight><id/></flight>"
