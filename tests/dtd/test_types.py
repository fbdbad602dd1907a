"""The shipped DTDs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from lxml import etree

from broker.dtd.catalogue import Catalogue
from broker.dtd.dtd import Dtd
from tests.capability import needs

Shipped = Callable[[str, str], Dtd]
Event = Callable[..., bytes]
Parse = Callable[[bytes], etree._Element]

BUNDLE = b"<Mspaces:BundleId>b</Mspaces:BundleId><Mspaces:BundleNumber>1</Mspaces:BundleNumber>"


def verdicts(shipped: Shipped, type_name: str, root: etree._Element) -> list[bool]:
    return [shipped(type_name, version).check(root) is None for version in ("1.0", "1.1")]


def test_one_bundle_is_valid_in_both_versions_two_only_in_the_newer(
    shipped: Shipped, event: Event, parse: Parse
) -> None:
    for bundles, expected in ((0, [True, True]), (1, [True, True]), (2, [False, True])):
        root = parse(event(b"", "event", linkage=BUNDLE * bundles))
        assert verdicts(shipped, "event", root) == expected


def test_a_timestamp_is_valid_only_in_flight_1_1(
    shipped: Shipped, event: Event, parse: Parse, flight: bytes
) -> None:
    assert verdicts(shipped, "flight", parse(event(flight))) == [True, True]
    timed = flight.replace(b"</id>", b"</id><timestamp>2020-08-22T13:13:10Z</timestamp>")
    assert verdicts(shipped, "flight", parse(event(timed))) == [False, True]


def test_a_recovery_event_of_an_old_version_validates_against_its_own(
    shipped: Shipped, event: Event, parse: Parse, flight: bytes
) -> None:
    """The newest DTD would reject an old form, or accept a new one (M17)."""
    old = parse(event(flight, event_type=b' Liveness="recovery"'))
    assert shipped("flight", "1.0").check(old) is None
    two_bundles = parse(event(flight, event_type=b' Liveness="recovery"', linkage=BUNDLE * 2))
    assert shipped("flight", "1.0").check(two_bundles) is not None
    assert shipped("flight", "1.1").check(two_bundles) is None


def test_the_payload_must_be_the_one_of_the_type(
    shipped: Shipped, event: Event, parse: Parse, flight: bytes
) -> None:
    assert shipped("event", "1.0").check(parse(event(flight))) is not None
    assert shipped("flight", "1.0").check(parse(event(b""))) is not None
    assert shipped("flight", "1.0").check(parse(event(flight * 2))) is not None
    assert shipped("asdi", "1.0").check(parse(event(flight))) is not None


@pytest.mark.parametrize(
    "rest",
    [
        b"<Mspaces:Summary>s</Mspaces:Summary>",
        b"<Mspaces:ApplicationType>a</Mspaces:ApplicationType>" * 3,
        b"<Mspaces:ApplicationType>a</Mspaces:ApplicationType><Mspaces:Summary/>",
    ],
)
def test_applications_and_a_summary_may_follow_the_linkage(
    shipped: Shipped, event: Event, parse: Parse, rest: bytes
) -> None:
    assert verdicts(shipped, "event", parse(event(b"", "event", rest=rest))) == [True, True]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            b"<Mspaces:StreamId>asdi.zbw.tz</Mspaces:StreamId><Mspaces:EventId>",
            b"<Mspaces:EventId>",
        ),
        (b"<Mspaces:Incarnation>1</Mspaces:Incarnation>", b""),
        (b"<Mspaces:BundleLinkage/>", b""),
        (b"<Mspaces:BundleLinkage/>", b"<Mspaces:BundleNumber>1</Mspaces:BundleNumber>"),
        (b"<Mspaces:BundleLinkage/>", b"<Mspaces:BundleLinkage>NONE</Mspaces:BundleLinkage>"),
        (b"<Mspaces:EventType>", b'<Mspaces:EventType SecurityLevel="low">'),
        (b"<Mspaces:EventType>", b'<Mspaces:EventType Securitylevel="secret">'),
        (b"<Mspaces:EventType>", b'<Mspaces:EventType Liveness="dead">'),
        (b"ClientId>", b"ClientID>"),
        (b"</Mspaces:EventLinkage>", b"</Mspaces:EventLinkage>" + b"<Mspaces:Summary/>" * 2),
        (b"</Mspaces:EventLinkage>", b"</Mspaces:EventLinkage>text"),
        (b"<Mspaces:VersionNum>1.0</Mspaces:VersionNum>", b""),
    ],
)
def test_a_broken_envelope_is_refused_by_both_versions(
    shipped: Shipped, event: Event, parse: Parse, old: bytes, new: bytes
) -> None:
    good = event(b"", "event")
    assert old in good
    assert verdicts(shipped, "event", parse(good.replace(old, new))) == [False, False]


@pytest.mark.parametrize(
    "order",
    [
        b"<Mspaces:StreamId>a</Mspaces:StreamId>",
        b"<Mspaces:BundleId>b</Mspaces:BundleId>",
        b"<Mspaces:StreamId>a</Mspaces:StreamId><Mspaces:BundleId>b</Mspaces:BundleId>" * 2,
    ],
)
def test_a_bundle_order_names_streams_and_bundles_in_any_order(
    shipped: Shipped, event: Event, parse: Parse, order: bytes
) -> None:
    written = re.sub(
        rb"(<Mspaces:BundleOrder>).*(</Mspaces:BundleOrder>)",
        rb"\1" + order + rb"\2",
        event(b"", "event"),
    )
    assert order in written
    assert verdicts(shipped, "event", parse(written)) == [True, True]


_LINE = re.compile(
    r"(?P<sequence>[0-9A-F]{4})(?P<time>\d{8})(?P<facility>[A-Z]{4})(?P<type>TZ|FZ) (?P<rest>.*)"
)


def asdi(line: str) -> bytes:
    """As in the DTD's comment."""
    match = _LINE.fullmatch(line.rstrip())
    assert match is not None
    words = match["rest"].split()
    aircraft, _, computer = words[0].partition("/")
    asdi = etree.Element("asdi", type=match["type"])
    for name in ("sequence", "time", "facility"):
        etree.SubElement(asdi, name).text = match[name]

    def put(parent: etree._Element, name: str, value: str, **attributes: str) -> None:
        etree.SubElement(parent, name, attributes).text = value

    message = etree.SubElement(asdi, "track" if match["type"] == "TZ" else "flightPlan")
    put(message, "aircraftId", aircraft)
    if computer and match["type"] == "TZ":
        put(message, "computerId", computer)
    if match["type"] == "TZ":
        put(message, "speed", words[1], type="ground")
        mode = "C" if words[2].endswith("C") else "plain"
        put(message, "altitude", words[2].rstrip("C"), type="reported", mode=mode)
        coordinate = etree.SubElement(message, "coordinate")
        latitude, _, longitude = words[3].partition("/")
        put(coordinate, "lat", latitude)
        put(coordinate, "lon", longitude)
    else:
        put(message, "aircraft", words[1])
        mach = words[2].startswith("M")
        put(message, "speed", words[2].lstrip("M"), type="mach" if mach else "filed")
        put(message, "origin", words[3])
        put(message, "departureTime", words[4][1:], status=words[4][0])
        put(message, "altitude", words[5], type="requested")
        put(message, "route", words[6])
    return etree.tostring(asdi)


def test_every_real_line_of_the_feed_can_be_said(
    shipped: Shipped, event: Event, parse: Parse, shared_data: Path
) -> None:
    lines = (shared_data / "asdi-tsafe" / "test1.txt").read_text().splitlines()
    dtd = shipped("asdi", "1.0")
    problems = [dtd.check(parse(event(asdi(line), "asdi"))) for line in lines]
    assert problems == [None] * 66


@pytest.mark.parametrize(
    "message",
    [
        "<departure><aircraftId>A</aircraftId><origin>BOS</origin>"
        '<departureTime status="D">1958</departureTime><destination>SNN</destination></departure>',
        "<arrival><aircraftId>A</aircraftId><destination>BOS</destination>"
        '<arrivalTime form="iso8601">2020-08-22T13:13:10Z</arrivalTime></arrival>',
        "<amendment><aircraftId>A</aircraftId><change field='08'>350</change></amendment>",
        "<boundaryCrossing><aircraftId>A</aircraftId><crossingTime>1958</crossingTime>"
        "</boundaryCrossing>",
        "<cancellation><aircraftId>A</aircraftId><computerId>1</computerId></cancellation>",
    ],
)
def test_each_family_of_messages_has_its_element(
    shipped: Shipped, event: Event, parse: Parse, message: str
) -> None:
    payload = f"<asdi type='DZ'><time>16193037</time><facility>KZBW</facility>{message}</asdi>"
    dtd = shipped("asdi", "1.0")
    assert dtd.check(parse(event(payload.encode(), "asdi"))) is None
    wrong = payload.replace("<aircraftId>A</aircraftId>", "").encode()
    assert dtd.check(parse(event(wrong, "asdi"))) is not None


@needs("xmllint")
def test_xmllint_validates_an_event_with_the_catalogue(
    catalogue: Catalogue, event: Event, flight: bytes, tmp_path: Path
) -> None:
    voevent = b'<VOEvent version="2.0" ivorn="ivo://x/y#1"><What><Param name="p"/></What></VOEvent>'

    def complaints(document: bytes) -> str:
        (tmp_path / "event.xml").write_bytes(document)
        done = subprocess.run(
            ["xmllint", "--nonet", "--noout", "--valid", str(tmp_path / "event.xml")],
            env={"XML_CATALOG_FILES": str(catalogue.folder / "catalog.xml")},
            capture_output=True,
            check=False,
            timeout=60,
            text=True,
        )
        return done.stderr if done.returncode else ""

    assert complaints(event(flight)) == ""
    assert complaints(event(flight, "flight", "1.1", linkage=BUNDLE * 2)) == ""
    assert complaints(event(voevent, "VOEvent", "1.1")) == ""
    assert complaints(event(voevent, "VOEvent", "2.0")) == ""
    by_pointer = event(flight).replace(b'PUBLIC "-//xmlbroker//DTD flight 1.0//EN"', b"SYSTEM")
    assert complaints(by_pointer) == ""
    assert "does not follow the DTD" in complaints(event(flight, linkage=BUNDLE * 2))
