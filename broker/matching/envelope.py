"""The envelope's fields, and the rules for them that a DTD can not express."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from lxml import etree

from broker.dtd.reference import DtdReference
from broker.errors import BadEnvelope, BadName
from broker.event.envelope import NAMESPACE, Header, Liveness, SecurityLevel, Validation
from broker.event.event_id import EventId
from broker.event.payload import ENVELOPE_CHILDREN, find_payload_element
from broker.event.stream import check_client_id, check_stream_name

_Q = f"{{{NAMESPACE}}}"
#: The first elements, in this order. A user's DTD may contradict it.
_EVENT = [_Q + name for name in ("StreamId", "EventId", "EventType", "EventLinkage")]
_EVENT_ID = [_Q + name for name in ("ClientId", "TimeStamp", "SequenceNumber", "Incarnation")]
_EVENT_TYPE = [_Q + "VersionNum"]
_BUNDLE_ID, _BUNDLE_NUMBER = _Q + "BundleId", _Q + "BundleNumber"
_SECURITY_LEVELS = {level.value: level for level in SecurityLevel}
_LIVENESS = {liveness.value: liveness for liveness in Liveness}
_LIMIT = 2**63
_DIGITS = 19


class BadField(BadEnvelope):
    def __init__(self, field: str, text: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(f"Mspaces:{field}: {text}", line=line, column=column)
        self.field = field


class EnvelopeParts(NamedTuple):
    header: Header
    payload: etree._Element | None


def parse_header(
    stream: str,
    client_id: str,
    timestamp: str,
    sequence_number: str,
    incarnation: str,
    version_num: str,
    security_level: str,
    liveness: str,
    reference: DtdReference,
) -> Header:
    """Return the header; `reference` is from the DOCTYPE. Raises `BadField`."""
    try:
        check_stream_name(stream)
    except BadName as error:
        raise BadField("StreamId", error.text) from None
    try:
        check_client_id(client_id)
    except BadName as error:
        raise BadField("ClientId", error.text) from None
    if version_num != reference.version:
        raise BadField(
            "VersionNum",
            f"{version_num[:40]!r} is not the DOCTYPE's version {reference.version!r}",
        )
    if security_level not in _SECURITY_LEVELS:
        raise BadField("EventType", f"Securitylevel {security_level[:40]!r} is unknown")
    if liveness not in _LIVENESS:
        raise BadField("EventType", f"Liveness {liveness[:40]!r} is unknown")
    return Header(
        EventId(
            client_id,
            _parse_number("TimeStamp", timestamp, 0),
            _parse_number("SequenceNumber", sequence_number, 1),
            _parse_number("Incarnation", incarnation, 0),
        ),
        stream,
        reference.type,
        version_num,
        _SECURITY_LEVELS[security_level],
        _LIVENESS[liveness],
    )


def check_bundles(bundle_ids: Sequence[str], bundle_numbers: Sequence[str]) -> None:
    """Refuse bundle numbers that are not plain digits, and repeated bundles (M31, M32)."""
    for number in bundle_numbers:
        _parse_number("BundleNumber", number, 0)
    if len(set(bundle_ids)) != len(bundle_ids):
        raise BadField("BundleId", "the event names a bundle twice")


def read_envelope(
    root: etree._Element,
    reference: DtdReference,
    validation: Validation = Validation.DESCRIBED,
) -> EnvelopeParts:
    """Return header and payload of a valid envelope with defaults applied.

    Raises `BadEnvelope` with field and line.
    """
    try:
        return _read(root, reference, validation)
    except BadField as error:
        element = next(root.iter(_Q + error.field), root)
        raise BadEnvelope(error.text, line=element_line(element)) from None


def _read(root: etree._Element, reference: DtdReference, validation: Validation) -> EnvelopeParts:
    stream, event_id, kind, linkage = _require_tags(root, _EVENT, 4)
    client_id, timestamp, sequence_number, incarnation = _require_tags(event_id, _EVENT_ID)
    (version,) = _require_tags(kind, _EVENT_TYPE, 1)
    header = parse_header(
        _leaf_text(stream),
        _leaf_text(client_id),
        _leaf_text(timestamp),
        _leaf_text(sequence_number),
        _leaf_text(incarnation),
        _leaf_text(version),
        kind.get("Securitylevel", "med"),
        kind.get("Liveness", "live"),
        reference,
    )._replace(validation=validation)
    if len(linkage) > 2:
        check_bundles(
            [_leaf_text(child) for child in linkage.iterchildren(_BUNDLE_ID)],
            [_leaf_text(child) for child in linkage.iterchildren(_BUNDLE_NUMBER)],
        )
    # Most events have one more element: the payload.
    last = root[-1]
    if len(root) == len(_EVENT) + 1 and isinstance(last.tag, str):
        return EnvelopeParts(header, None if last.tag in ENVELOPE_CHILDREN else last)
    return EnvelopeParts(header, find_payload(root))


def _require_tags(
    parent: etree._Element, tags: list[str], count: int | None = None
) -> list[etree._Element]:
    """Return the first `count` child elements; raise `BadField` unless they have these tags."""
    # Without comments, all children are elements: a fifth of the time.
    for children in (parent, parent.iterchildren("*")):
        elements = list(children)[:count]
        if [element.tag for element in elements] == tags:
            return elements
    raise BadField("Event", "its elements are not those of an envelope")


def find_payload(root: etree._Element) -> etree._Element | None:
    """Return the payload's element or None; raise `BadField` for two of them."""
    try:
        return find_payload_element(root)
    except BadEnvelope as error:
        raise BadField("Event", error.text) from None


def _leaf_text(element: etree._Element) -> str:
    if len(element):
        name = etree.QName(element).localname
        raise BadField(name, "a comment or processing instruction inside is not accepted")
    return element.text or ""


def _parse_number(field: str, text: str, least: int) -> int:
    if text.isdigit() and text.isascii() and len(text) <= _DIGITS:
        value = int(text)
        if least <= value < _LIMIT:
            return value
        raise BadField(field, f"{text} is not from {least} to 2**63 - 1")
    raise BadField(field, f"{text[:40]!r} is not 1 to {_DIGITS} digits")


def element_line(element: etree._Element) -> int:
    """Return the line of an element, 0 if it was not parsed."""
    return cast("int | None", element.sourceline) or 0
