from __future__ import annotations

import io
import json
from typing import Any

import pytest

from broker.cli.publishing.document_reader import read_all
from broker.cli.publishing.pace import TimePath
from broker.cli.publishing.preparation import Preparation, PublishOptions
from broker.cli.publishing.publication import Publication, RawDocument, Refusal, SourceLocation
from broker.event.envelope import Bundle, EventLinkage, EventType, SecurityLevel
from broker.event.event_id import EventId
from broker.event.writer import write_event

VOE = "http://www.ivoa.net/xml/VOEvent/v"
ORIGIN = SourceLocation("f", 10)


def xml(text: str, **options: Any) -> Publication | Refusal:
    return Preparation(PublishOptions(**options)).prepare_xml(RawDocument(ORIGIN, text.encode()))


def published(text: str, **options: Any) -> Publication:
    found = xml(text, **options)
    assert isinstance(found, Publication), found
    return found


def line(**content: Any) -> Publication | Refusal | None:
    return Preparation().prepare_json(RawDocument(ORIGIN, json.dumps(content).encode()))


@pytest.mark.parametrize(
    ("payload", "name", "version", "stream"),
    [
        (f'<v:VOEvent xmlns:v="{VOE}2.0" version="2.0"/>', "VOEvent", "2.0", "voevent"),
        (f'<voe:VOEvent xmlns:voe="{VOE}1.1" version="1.1"/>', "VOEvent", "1.1", "voevent"),
        (f'<VOEvent xmlns="{VOE}2.0" version="1.0"/>', "VOEvent", "2.0", "voevent"),
        ('<VOEvent version="1.1"/>', "VOEvent", "1.1", "voevent"),
        ("<flight><id>1</id></flight>", "flight", "1.0", "flight"),
        ("<flight><id>1</id><timestamp/></flight>", "flight", "1.1", "flight"),
        ('<asdi type="TZ"><facility>KZBW</facility></asdi>', "asdi", "1.0", "asdi.zbw.tz"),
        ('<asdi type="TZ"><facility>CCZV</facility></asdi>', "asdi", "1.0", "asdi.czv.tz"),
        ('<asdi type="T.">$</asdi>', "asdi", "1.0", "asdi"),
    ],
)
def test_a_known_payload_shows_its_type_and_stream(
    payload: str, name: str, version: str, stream: str
) -> None:
    found = published(payload)
    assert (found.event_type.name, found.event_type.version) == (name, version)
    assert found.stream == stream


@pytest.mark.parametrize(
    "payload",
    [
        "<alert/>",
        '<VOEvent version="3.0"/>',
        f'<VOEvent xmlns="{VOE}9.0"/>',
        '<f:flight xmlns:f="urn:x"/>',
    ],
)
def test_an_unknown_payload_is_refused_with_advice(payload: str) -> None:
    assert "name it with --type NAME VERSION" in str(xml(payload))


def test_options_override_the_document() -> None:
    found = published(
        "<flight><id>1</id></flight>",
        type=("flight", "1.1"),
        stream="my.flights",
        security_level=SecurityLevel.HIGH,
    )
    assert found.event_type == EventType("flight", "1.1", security_level=SecurityLevel.HIGH)
    assert found.stream == "my.flights"


def test_a_users_own_type_has_the_stream_of_its_name() -> None:
    assert published("<alert/>", type=("CAP.alert", "1.2")).stream == "cap-alert"


def test_the_time_is_found_by_the_types_path() -> None:
    text = "<VOEvent version='2.0'><Who><Date>1970-01-01T00:01:00</Date></Who></VOEvent>"
    assert published(text).time == 60
    assert published("<flight><id/><timestamp>1970-01-02</timestamp></flight>").time == 86_400
    assert published('<asdi type="TZ"><time>01000001</time></asdi>').time == 86_401
    assert published("<flight><id/></flight>").time is None
    other = published("<flight><id>1970-01-02</id></flight>", time_from=TimePath("id"))
    assert other.time == 86_400


def test_an_event_is_published_again_with_its_envelope() -> None:
    linkage = EventLinkage(bundles=(Bundle("b", 3),), merge_scheme="first")
    document = write_event(
        EventId("other", 1, 2, 3),
        "asdi.zbw",
        EventType("flight", "1.1", security_level=SecurityLevel.LOW),
        b"<flight>\n<id>1</id></flight>",
        linkage=linkage,
        application_types=("atc",),
        summary="one & only",
    )
    found = published(document.decode())
    assert found.stream == "asdi.zbw"
    assert found.event_type == EventType("flight", "1.1", security_level=SecurityLevel.LOW)
    assert found.payload == b"<flight>\n<id>1</id></flight>"
    assert found.linkage.bundles == linkage.bundles
    assert (found.application_types, found.summary) == (("atc",), "one & only")


def test_an_event_without_a_payload_is_published_again_too() -> None:
    document = write_event(EventId("o", 1, 2, 3), "s", EventType("event", "1.1"))
    assert published(document.decode()).payload is None


def test_a_problem_is_reported_with_its_line() -> None:
    refused = xml("<flight>\n<id>\n</flight>")
    assert isinstance(refused, Refusal)
    assert refused.location == SourceLocation("f", 12)
    problem = Preparation().prepare_xml(RawDocument(ORIGIN, b"", "too large"))
    assert str(problem) == "f:10: too large"


def test_a_line_of_json_sets_every_property() -> None:
    found = line(
        stream="a.b",
        type="flight",
        version="1.0",
        level="high",
        payload="<?xml version='1.0'?><flight/>",
        summary="s",
        application_types=["x"],
        place="o:1:1",
        id="anything",
    )
    assert isinstance(found, Publication)
    assert (found.stream, found.payload) == ("a.b", b"<flight/>")
    assert found.event_type == EventType("flight", "1.0", security_level=SecurityLevel.HIGH)
    assert (found.summary, found.application_types) == ("s", ("x",))


def test_a_line_of_json_may_hold_only_a_payload() -> None:
    found = line(payload="<flight><id>é</id></flight>")
    assert isinstance(found, Publication)
    assert (found.event_type.name, found.stream) == ("flight", "flight")
    assert found.payload == "<flight><id>é</id></flight>".encode()


def test_a_line_of_json_may_have_no_payload() -> None:
    found = line(stream="s", payload=None)
    assert isinstance(found, Publication)
    assert (found.payload, found.event_type.name) == (None, "event")


def test_lines_that_are_no_events_are_skipped() -> None:
    assert line(gap={"first": "o:1:1"}) is None
    assert line(**{"type-changed": {"type": "flight"}}) is None
    assert line(missing={"bundle_id": "b"}) is None
    assert line(status={"site": "c"}) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"payload": 3}, "payload is not a text"),
        ({"payload": "<a/><b/>"}, "payload is 2 XML documents, not one"),
        ({"payload": ""}, "payload is 0 XML documents, not one"),
        ({"payload": "<!DOCTYPE a [<!ENTITY b 'c'>]><a/>"}, "payload: the DOCTYPE has an internal"),
        ({"payload": "<a>"}, "not well-formed"),
        ({"payload": "<flight/>", "type": "flight"}, "give both type and version"),
        ({"payload": "<flight/>", "stream": 7}, "stream is not a text"),
        ({"payload": "<flight/>", "level": "top"}, "'top' is not a valid SecurityLevel"),
        ({"payload": "<flight/>", "level": []}, None),
        ({"payload": "<flight/>", "application_types": "x"}, "application_types is not a list"),
        ({"payload": "<a>\ud800</a>"}, "not well-formed"),
    ],
)
def test_a_wrong_line_of_json_is_refused(content: dict[str, Any], reason: str | None) -> None:
    found = line(**content)
    if reason is None:
        assert isinstance(found, Publication)
    else:
        assert isinstance(found, Refusal)
        assert reason in found.reason


@pytest.mark.parametrize("data", [b"{", b"\xff", b"[" * 100_000, b"3", b"{}}"])
def test_invalid_json_is_refused(data: bytes) -> None:
    assert isinstance(Preparation().prepare_json(RawDocument(ORIGIN, data)), Refusal)


@pytest.mark.parametrize(("declared", "transcoded"), [("ISO-8859-1", False), ("UTF-16", True)])
def test_an_event_in_another_encoding_is_published_in_utf_8(
    declared: str, transcoded: bool
) -> None:
    # As ISO-8859-1 two letters, as UTF-8 one.
    document = write_event(
        EventId("other", 1, 1, 1),
        "s",
        EventType("flight", "1.0"),
        "<flight><id>\u00c3\u00a9</id></flight>".encode(),
        summary="\u00c3\u00a9",
    )
    text = document.decode().replace("UTF-8", declared)
    piece = RawDocument(ORIGIN, text.encode("utf-8" if transcoded else declared))
    found = Preparation().prepare_xml(piece, transcoded=transcoded)
    assert isinstance(found, Publication), found
    assert found.payload == "<flight><id>\u00c3\u00a9</id></flight>".encode()
    assert found.summary == "\u00c3\u00a9"


XML_1_1 = "<?xml version='1.1'?><flight/>"
EVENT_1_1 = write_event(EventId("p", 1, 1, 1), "a", EventType("flight", "1.0"), b"<flight/>")


@pytest.mark.parametrize(
    "data",
    [
        XML_1_1.encode(),
        XML_1_1.encode("utf-16"),
        EVENT_1_1.replace(b'version="1.0"', b'version="1.1"', 1),
        json.dumps({"payload": XML_1_1}).encode(),
    ],
    ids=["payload", "UTF-16", "event", "JSON"],
)
def test_xml_1_1_is_refused(data: bytes) -> None:
    (item,) = read_all(("-",), lambda: io.BytesIO(data), Preparation())
    assert isinstance(item, Refusal)
    assert item.reason == "it declares XML 1.1, and only 1.0 is accepted: declare version 1.0"
