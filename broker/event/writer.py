"""Write an envelope around a payload's unchanged bytes."""

from __future__ import annotations

import re
from functools import lru_cache
from xml.sax.saxutils import escape, quoteattr

from broker.errors import BadEnvelope
from broker.event.encoding import is_utf8
from broker.event.envelope import (
    NAMESPACE,
    EventLinkage,
    EventType,
    Liveness,
    Order,
    public_identifier,
    system_identifier,
)
from broker.event.event_id import EventId
from broker.event.stream import check_stream_name

_TYPE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)
_VERSION = re.compile(r"[0-9]+(\.[0-9]+){0,3}", re.ASCII)
_HEAD = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*+(?:<\?xml([ \t\r\n][^>]*?)\?>)?[ \t\r\n]*+")
_ENCODING = re.compile(rb"[ \t\r\n]encoding[ \t\r\n]*=[ \t\r\n]*[\"']([^\"']*)")
_XML_VERSION = re.compile(rb"[ \t\r\n]version[ \t\r\n]*=[ \t\r\n]*[\"']([^\"']*)")
_START_TAG = re.compile(rb"<[^!?/>\s]")
_TAIL = b"</Mspaces:Event>"


def extract_payload_element(document: bytes) -> bytes:
    """Remove byte order mark, XML declaration and outer white space.

    Raises `BadEnvelope` if no element begins then, the encoding is not UTF-8, or the declaration is
    not of XML 1.0. The node checks the rest.
    """
    head = _HEAD.match(document)
    assert head is not None
    encoding = _ENCODING.search(head[1] or b"")
    if encoding is not None and not is_utf8(encoding[1].decode("latin-1")):
        raise BadEnvelope(f"payload is in {encoding[1][:40].decode('latin-1')}, not UTF-8")
    version = _XML_VERSION.search(head[1] or b"")
    if version is not None and version[1] != b"1.0":
        shown = version[1][:40].decode("latin-1")
        raise BadEnvelope(f"payload is in XML {shown}: only 1.0 is accepted")
    element = document[head.end() :].rstrip(b" \t\r\n")
    if not _START_TAG.match(element):
        raise BadEnvelope("payload does not begin with an element")
    return element


def write_event(
    event_id: EventId,
    stream: str,
    event_type: EventType,
    payload: bytes | None = None,
    *,
    linkage: EventLinkage = EventLinkage(),
    application_types: tuple[str, ...] = (),
    summary: str | None = None,
    system_id: str | None = None,
) -> bytes:
    """Write an event around the payload's unchanged bytes.

    `payload` is one element in UTF-8; the node validates it. Raises `BadName` or `BadEnvelope`.
    """
    try:
        return b"%s<Mspaces:TimeStamp>%d</Mspaces:TimeStamp><Mspaces:SequenceNumber>%d%s%s%s" % (
            _format_head(
                event_type.name, event_type.version, stream, event_id.client_id, system_id
            ),
            event_id.timestamp,
            event_id.sequence_number,
            _format_middle(
                event_id.incarnation, event_type, linkage, stream, application_types, summary
            ),
            b"" if payload is None else payload,
            _TAIL,
        )
    except UnicodeEncodeError as error:
        raise BadEnvelope(
            f"a text of the envelope has characters that XML forbids: {error.reason}"
        ) from None


@lru_cache(maxsize=1024)
def _format_head(
    type_name: str, version: str, stream: str, client_id: str, system_id: str | None
) -> bytes:
    if not _TYPE_NAME.fullmatch(type_name):
        raise BadEnvelope(f"event type {type_name[:80]!r} is not a name of a DTD")
    if not _VERSION.fullmatch(version):
        raise BadEnvelope(f"version {version[:80]!r} is not numbers joined by dots, such as 1.0")
    check_stream_name(stream)
    pointer = system_identifier(type_name, version) if system_id is None else system_id
    if '"' in pointer:
        raise BadEnvelope("the DTD pointer has a quotation mark in it")
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<!DOCTYPE Mspaces:Event PUBLIC "{public_identifier(type_name, version)}" "{pointer}">\n'
        f'<Mspaces:Event xmlns:Mspaces="{NAMESPACE}">'
        f"<Mspaces:StreamId>{stream}</Mspaces:StreamId>"
        f"<Mspaces:EventId><Mspaces:ClientId>{escape(client_id)}</Mspaces:ClientId>"
    ).encode()


@lru_cache(maxsize=1024)
def _format_middle(
    incarnation: int,
    event_type: EventType,
    linkage: EventLinkage,
    stream: str,
    application_types: tuple[str, ...],
    summary: str | None,
) -> bytes:
    parts = [
        "</Mspaces:SequenceNumber>",
        f"<Mspaces:Incarnation>{incarnation}</Mspaces:Incarnation></Mspaces:EventId>",
        f"<Mspaces:EventType Securitylevel={quoteattr(event_type.security_level.value)}",
        "" if event_type.liveness is Liveness.LIVE else ' Liveness="recovery"',
        f"><Mspaces:VersionNum>{event_type.version}</Mspaces:VersionNum>",
        _text("LatestVersionNum", event_type.latest_version),
        "</Mspaces:EventType><Mspaces:EventLinkage>",
    ]
    for bundle in linkage.bundles:
        parts.append(_text("BundleId", bundle.bundle_id))
        parts.append(f"<Mspaces:BundleNumber>{bundle.bundle_number}</Mspaces:BundleNumber>")
    inner = _text("TimeConstraint", linkage.time_constraint) + _text(
        "MergeScheme", linkage.merge_scheme
    )
    parts.append(
        f"<Mspaces:BundleLinkage>{inner}</Mspaces:BundleLinkage>"
        if inner
        else "<Mspaces:BundleLinkage/>"
    )
    parts.append("<Mspaces:BundleOrder>")
    for entry in linkage.order or (Order(stream),):
        parts.append(_text("BundleId" if entry.is_bundle else "StreamId", entry.name))
    parts.append("</Mspaces:BundleOrder></Mspaces:EventLinkage>")
    parts.extend(_text("ApplicationType", name) for name in application_types)
    parts.append(_text("Summary", summary))
    return "".join(parts).encode()


def _text(name: str, value: str | None) -> str:
    return "" if value is None else f"<Mspaces:{name}>{escape(value)}</Mspaces:{name}>"
