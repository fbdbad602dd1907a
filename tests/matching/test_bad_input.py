"""Bad documents (issue "Bad input", T19-T23) are refused with a typed error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.dtd.reference import DtdReference
from broker.errors import (
    BadEnvelope,
    BrokerError,
    ForbiddenMarkup,
    NotValid,
    NotWellFormed,
    TooLarge,
)
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted, Refused
from broker.matching.document_limits import DocumentLimits
from broker.matching.query.query import parse_query
from broker.matching.undescribed import without_dtds
from tests.matching.refusal import assert_refused

MakeEvent = Callable[..., bytes]
DOCTYPE_END = b'flight-1.0.dtd">'
NESTED_ENTITIES = b"<!ENTITY a 'ha'>" + b"".join(
    b"<!ENTITY %c '%s'>" % (98 + i, b"&%c;" % (97 + i) * 10) for i in range(9)
)


@pytest.fixture(autouse=True)
def undisturbed(engine: Any, make_event: MakeEvent) -> Any:
    """Check that a subscription still works after each test."""
    number = engine.subscribe(StreamPattern.parse(">"), parse_query("//altitude"))
    yield
    (verdict,) = engine.match([make_event()])
    assert isinstance(verdict, Accepted)
    assert number in verdict.subscriptions


def with_subset(document: bytes, subset: bytes) -> bytes:
    return document.replace(DOCTYPE_END, DOCTYPE_END[:-1] + b" [" + subset + b"]>", 1)


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        (lambda d: d.replace(b"</id>", b""), 3),
        (lambda d: d[:-5], 3),
        (lambda d: d + b"<a/>", 3),
        (lambda d: d + b"\n\ntext", 5),
        (lambda d: d.replace(b"UAL", b"&#0;"), 3),
        (lambda d: d.replace(b"UAL", b"\x01"), 3),
        (lambda d: d.replace(b"UAL", b"\xef\xbf\xbe"), 3),
        (lambda d: d.replace(b"UAL", b"<"), 3),
        (lambda d: d.replace(b"<flight>", b"<flight a='1' a='2'>"), 3),
        (lambda d: d.replace(b"<flight>", b"<p:flight>").replace(b"</f", b"</p:f"), 3),
        (lambda d: b"", 0),
        (lambda d: b"garbage", 1),
        (lambda d: b"   ", 1),
        (lambda d: b"<", 1),
        (lambda d: b"<!DOCTYPE", 1),
        (lambda d: b"<!-- ", 1),
        (lambda d: b"<?xml version='1.0'", 1),
        (lambda d: b"<?xml version='1.1'?><a/>", 1),
        (lambda d: d.replace(b"<!DOCTYPE", b"<!DOCTYPE a SYSTEM 'b'>\n<!DOCTYPE"), 0),
    ],
)
def test_document_that_is_not_well_formed_is_refused_with_its_line(
    engine: Any, make_event: MakeEvent, broken: Callable[[bytes], bytes], line: int
) -> None:
    error = assert_refused(engine, broken(make_event()))
    if line:
        assert type(error) is NotWellFormed, error
        assert error.line == line
        assert error.column > 0
    else:
        assert isinstance(error, NotWellFormed | BadEnvelope)


@pytest.mark.parametrize(
    "broken",
    [
        lambda d: d.replace(b"<id>UAL1021</id>", b""),
        lambda d: d.replace(b"</flight>", b"<plane/></flight>"),
        lambda d: d.replace(b"<flight>", b"<flight kind='private'>"),
        lambda d: d.replace(b"<flight>", b"<flight wings='2'>"),
        lambda d: d.replace(b"</flight>", b"text</flight>"),
        lambda d: d.replace(b"</flight>", b"</flight><flight><id>1</id></flight>"),
        lambda d: d.replace(b"<Mspaces:Incarnation>1699</Mspaces:Incarnation>", b""),
        lambda d: d.replace(b'"med"', b'"top"'),
        lambda d: d.replace(b"flight>", b"plane>"),
        lambda d: d.replace(b"urn:xmlbroker:mspaces", b"urn:other"),
    ],
)
def test_invalid_document_is_refused(
    engine: Any, make_event: MakeEvent, broken: Callable[[bytes], bytes]
) -> None:
    error = assert_refused(engine, broken(make_event()))
    assert type(error) is NotValid
    assert error.line == 3


def test_version_of_doctype_and_envelope_must_agree(engine: Any, make_event: MakeEvent) -> None:
    document = make_event().replace(b"<Mspaces:VersionNum>1.0<", b"<Mspaces:VersionNum>2.0<")
    error = assert_refused(engine, document)
    assert type(error) is BadEnvelope
    assert "VersionNum" in error.text


def test_undeclared_prefix_is_refused(engine: Any, make_event: MakeEvent) -> None:
    """T22."""
    document = make_event().replace(b' xmlns:Mspaces="urn:xmlbroker:mspaces"', b"")
    assert isinstance(assert_refused(engine, document), NotWellFormed | NotValid)


def test_other_envelope_prefix_is_refused_with_its_name(engine: Any, make_event: MakeEvent) -> None:
    """K26: a DTD declares names with their prefix."""
    document = make_event().replace(b"<Mspaces:", b"<ms:").replace(b"</Mspaces:", b"</ms:")
    document = document.replace(b"xmlns:Mspaces", b"xmlns:ms")
    error = assert_refused(engine, document)
    assert type(error) is NotValid
    assert "prefix 'ms'" in error.text
    assert "Mspaces" in error.text


@pytest.mark.parametrize(
    ("subset", "use"),
    [
        (b"", b""),
        (NESTED_ENTITIES, b"&j;"),
        (b"<!ENTITY x SYSTEM 'file:///etc/passwd'>", b"&x;"),
        (b"<!ENTITY x SYSTEM 'http://localhost:1/'>", b"&x;"),
        (b"<!ENTITY % x SYSTEM 'http://localhost:1/x.dtd'> %x;", b""),
        (b"<!ELEMENT flight ANY>", b""),
        (b"<!ATTLIST flight kind CDATA 'x'>", b""),
        (b"<!ENTITY x ']]>'>", b""),
    ],
)
def test_any_internal_subset_is_forbidden(
    engine: Any, make_event: MakeEvent, subset: bytes, use: bytes
) -> None:
    """Entity bombs and external entities need a declaration (T23)."""
    error = assert_refused(engine, with_subset(make_event(), subset).replace(b"UAL1021", use))
    assert type(error) is ForbiddenMarkup
    assert "internal subset" in error.text
    assert error.line == 2


@pytest.mark.parametrize("gap", [b"<!-- x -->", b"<?x y?>", b"\n\n", b"<!-- <!DOCTYPE a> -->"])
def test_internal_subset_is_found_in_any_prolog(
    engine: Any, make_event: MakeEvent, gap: bytes
) -> None:
    document = with_subset(make_event(), NESTED_ENTITIES).replace(b"<!DOCTYPE", gap + b"<!DOCTYPE")
    assert type(assert_refused(engine, document)) is ForbiddenMarkup
    document = b"\xef\xbb\xbf" + with_subset(make_event(), NESTED_ENTITIES)
    assert type(assert_refused(engine, document)) is ForbiddenMarkup
    stripped = document[document.index(b"<!DOCTYPE") :]
    assert type(assert_refused(engine, stripped)) is ForbiddenMarkup


@pytest.mark.parametrize(
    "place",
    [
        lambda d: d.replace(b"UAL", b"&foo;"),
        lambda d: d.replace(b'"active"', b'"a&foo;b"'),
        lambda d: d.replace(b'"active"', b"'&foo;'"),
        lambda d: d.replace(b"UAL", b"<!-- &amp; --><![CDATA[&x;]]>&foo;"),
    ],
)
def test_general_entity_is_forbidden_in_text_and_attributes(
    engine: Any, make_event: MakeEvent, place: Callable[[bytes], bytes]
) -> None:
    """libxml2 accepts one in an attribute silently."""
    error = assert_refused(engine, place(make_event()))
    assert type(error) is ForbiddenMarkup
    assert "&foo;" in error.text
    assert error.line == 3


@pytest.mark.parametrize(
    "text",
    [
        b"&amp;&lt;&gt;&quot;&apos;&#65;&#x41;",
        b"<![CDATA[&foo; <!ENTITY x 'y'>]]>",
        b"<!-- &foo; <!ENTITY x 'y'> -->1",
    ],
)
def test_predefined_references_and_look_alikes_are_accepted(
    engine: Any, make_event: MakeEvent, text: bytes
) -> None:
    (verdict,) = engine.match([make_event().replace(b"UAL1021", text)])
    assert isinstance(verdict, Accepted)


def test_ampersand_in_the_pointer_is_accepted(engine: Any, make_event: MakeEvent) -> None:
    document = make_event(system_id="https://there/dtd?name=flight&foo;x")
    assert isinstance(engine.match([document])[0], Accepted)


def test_hundred_megabytes_are_refused_by_size(engine: Any, make_event: MakeEvent) -> None:
    document = make_event().replace(b"UAL1021", b"x" * 100_000_000)
    error = assert_refused(engine, document)
    assert type(error) is TooLarge
    assert "bytes" in error.text


def test_depth_of_ten_thousands_is_refused(engine: Any, make_event: MakeEvent) -> None:
    nested = b"<remark>" * 8_000 + b"</remark>" * 8_000
    error = assert_refused(engine, make_event(nested))
    assert isinstance(error, TooLarge)
    # Its head is read first.
    error = assert_refused(engine, b"<a>" * 16_000)
    assert isinstance(error, BadEnvelope)


def test_limits_of_depth_and_attributes_are_settings(
    make_engine: Callable[..., Any], make_event: MakeEvent
) -> None:
    engine = make_engine(document_limits=DocumentLimits(max_depth=4, max_attributes=3))
    padding = b"<remark>%s</remark>" % (b"x" * 2000)
    flat = make_event(b"<flight><id>1</id>%s</flight>" % padding)
    assert isinstance(engine.match([flat])[0], Accepted)
    deep = make_event(b"<flight><id>1<a><b/></a></id>%s</flight>" % padding)
    assert type(assert_refused(engine, deep)) is TooLarge
    many = make_event(b"<flight a='1' b='2' c='3' d='4'><id>1</id>%s</flight>" % padding)
    assert type(assert_refused(engine, many)) is TooLarge
    with pytest.raises(ValueError, match="max_depth"):
        DocumentLimits(max_depth=257)


@pytest.mark.parametrize(
    ("doctype", "word"),
    [
        (b"", "no DOCTYPE"),
        (b"<!DOCTYPE Mspaces:Event>", "public identifier"),
        (b"<!DOCTYPE Mspaces:Event SYSTEM 'x.dtd'>", "public identifier"),
        (b"<!DOCTYPE Mspaces:Event PUBLIC '-//other//DTD a 1.0//EN' 'x'>", "public identifier"),
        (b"<!DOCTYPE Mspaces:Event PUBLIC '-//xmlbroker//DTD a 01.0//EN' 'x'>", "01.0"),
        (b"<!DOCTYPE flight PUBLIC '-//xmlbroker//DTD flight 1.0//EN' 'x'>", "root element"),
    ],
)
def test_doctype_without_a_type_is_refused(
    engine: Any, make_event: MakeEvent, doctype: bytes, word: str
) -> None:
    document = make_event()
    start = document.index(b"<!DOCTYPE")
    end = document.index(b">", start) + 1
    error = assert_refused(engine, document[:start] + doctype + document[end:])
    assert type(error) is BadEnvelope
    assert word in error.text
    assert error.line > 0


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (b">asdi.zbw<", b">../etc<", "StreamId"),
        (b">asdi.zbw<", b"><", "StreamId"),
        (b">asdi.zbw<", b"> asdi<", "StreamId"),
        (b">pilot<", b">a b<", "ClientId"),
        (b">pilot<", b"><", "ClientId"),
        (b">1700000000123<", b">+5<", "TimeStamp"),
        (b">1700000000123<", b"> 5<", "TimeStamp"),
        (b">1700000000123<", b">-5<", "TimeStamp"),
        (b">1700000000123<", b">1_0<", "TimeStamp"),
        (b">1700000000123<", b">9223372036854775808<", "TimeStamp"),
        (b">1700000000123<", ">\u0665<".encode(), "TimeStamp"),
        (b">7<", b">0<", "SequenceNumber"),
        (b">7<", b">1e3<", "SequenceNumber"),
        (b">7<", b"><", "SequenceNumber"),
        (b">1699<", b">x<", "Incarnation"),
        (b">1699<", b">1<!-- -->2<", "Incarnation"),
        (b">1699<", b">1<?x y?>2<", "Incarnation"),
    ],
)
def test_envelope_fields_are_checked_beyond_the_dtd(
    engine: Any, make_event: MakeEvent, old: bytes, new: bytes, field: str
) -> None:
    document = make_event().replace(old, new)
    assert document != make_event()
    error = assert_refused(engine, document)
    assert isinstance(error, BadEnvelope)
    assert f"Mspaces:{field}" in error.text
    assert error.line == 3


def test_bundles_need_numbers_and_must_be_distinct(engine: Any, make_event: MakeEvent) -> None:
    pair = b"<Mspaces:BundleId>%s</Mspaces:BundleId><Mspaces:BundleNumber>%s</Mspaces:BundleNumber>"

    def bundled(*pairs: tuple[bytes, bytes]) -> bytes:
        return make_event().replace(
            b"<Mspaces:BundleLinkage/>",
            b"".join(pair % p for p in pairs) + b"<Mspaces:BundleLinkage/>",
        )

    assert isinstance(engine.match([bundled((b"a", b"1"), (b"b", b"0"))])[0], Accepted)
    assert "BundleNumber" in assert_refused(engine, bundled((b"a", b"one"))).text
    assert "BundleId" in assert_refused(engine, bundled((b"a", b"1"), (b"a", b"2"))).text


@pytest.mark.parametrize(
    "remark", [b"<!-- a -->", b"<?target data?>", b"\n\n", b"<!-- <Mspaces:StreamId>x -->"]
)
def test_comments_between_envelope_elements_change_nothing(
    engine: Any, make_event: MakeEvent, remark: bytes
) -> None:
    document = make_event(summary="s")
    spread = document.replace(b"><", b">" + remark + b"<").replace(b">" + remark + b"</", b"></")
    plain, remarked = engine.match([document, spread])
    assert plain == remarked


@pytest.mark.parametrize(
    "broken",
    [
        lambda d: d.replace(b"<Mspaces:Incarnation>1699</Mspaces:Incarnation>", b""),
        lambda d: d.replace(b'"med"', b'"top"'),
        lambda d: d.replace(b"<Mspaces:EventId>", b"<Mspaces:EventId>text"),
        lambda d: d.replace(b"<Mspaces:EventId>", b"<Mspaces:EventId a='b'>"),
        lambda d: d.replace(b">pilot<", b"><b/><"),
        lambda d: d.replace(b"<unknown/>", b"<unknown/><unknown/>"),
        lambda d: d.replace(b"<unknown/>", b"<unknown/>text"),
        lambda d: d.replace(b"<unknown/>", b"<Mspaces:Other/>"),
        lambda d: d.replace(b"Mspaces", b"ms").replace(b"ms:Event P", b"Mspaces:Event P"),
        lambda d: d.replace(b"urn:xmlbroker:mspaces", b"urn:other"),
    ],
)
def test_envelope_of_an_undescribed_type_is_checked(
    engine: Any, make_event: MakeEvent, broken: Callable[[bytes], bytes]
) -> None:
    unknown = without_dtds([DtdReference("unknown", "1.0")])
    document = make_event(b"<unknown/>", type_name="unknown")
    assert isinstance(engine.match([document], variants=unknown)[0], Accepted)
    (verdict,) = engine.match([broken(document)], variants=unknown)
    assert isinstance(verdict, Refused), verdict
    assert isinstance(verdict.error, NotValid)
    assert verdict.error.line == 3


def test_refusal_has_wire_fields(engine: Any) -> None:
    error = assert_refused(engine, b"<a>\n</b>")
    assert isinstance(error, BrokerError)
    assert error.to_wire()[0] == "not-well-formed"
    assert error.to_wire()[2] == 2
