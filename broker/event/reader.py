"""Parse a document's bytes into an `Event`."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from lxml import etree

from broker.errors import BadEnvelope, InvalidEvent, NotWellFormed
from broker.event.encoding import is_utf8
from broker.event.envelope import (
    CLEARTEXT_LEVEL,
    NAMESPACE,
    Bundle,
    Event,
    EventLinkage,
    EventType,
    Liveness,
    Order,
    SecurityLevel,
)
from broker.event.event_id import EventId
from broker.event.payload import find_payload_bytes

_PUBLIC_ID = re.compile(r"-//xmlbroker//DTD ([A-Za-z][A-Za-z0-9_.-]{0,63}) ([0-9.]{1,64})//EN")
_Q = f"{{{NAMESPACE}}}"


def parse_public_identifier(public_id: str | None) -> tuple[str, str]:
    """Raises `BadEnvelope` for a foreign identifier."""
    match = _PUBLIC_ID.fullmatch(public_id or "")
    if match is None:
        raise BadEnvelope(
            "the DOCTYPE's public identifier does not name an event type "
            f"as '-//xmlbroker//DTD TYPE VERSION//EN': {str(public_id)[:120]!r}"
        )
    return match.group(1), match.group(2)


def read_event(document: bytes) -> Event:
    """Return the event without validation. Raises `NotWellFormed` or `BadEnvelope`."""
    root = parse_document(document)
    name, version = parse_public_identifier(root.getroottree().docinfo.public_id)
    try:
        return _build_event(root, name, version, document)
    except ValueError as error:
        raise BadEnvelope(f"the envelope can not be read: {error}") from None


def read_latest_version(document: bytes, parser: etree.XMLParser | None = None) -> str | None:
    """Raises `NotWellFormed` or `BadEnvelope`."""
    try:
        kind = _first(_children(parse_document(document, parser)), "EventType")
    except ValueError as error:
        raise BadEnvelope(f"the envelope can not be read: {error}") from None
    return _optional(_children(kind), "LatestVersionNum")


def may_cross_cleartext(document: bytes) -> bool:
    """Return whether a network may carry an event without encryption; False if in doubt."""
    if _LEVEL_HINT.search(document) is None:
        return True
    try:
        kind = _first(_children(parse_document(document)), "EventType")
        return SecurityLevel(kind.get("Securitylevel", "med")) <= CLEARTEXT_LEVEL
    except (ValueError, InvalidEvent):
        return False


def parse_document(document: bytes, parser: etree.XMLParser | None = None) -> etree._Element:
    """Raises `NotWellFormed`, also for another encoding than UTF-8. The default is a common parser
    of all documents."""
    global _parser
    if parser is not None:
        return _parse(document, parser)
    try:
        return _parse(document, _parser)
    except NotWellFormed:
        # The parser would keep a long error log.
        _parser = make_parser()
        raise


def _parse(document: bytes, parser: etree.XMLParser) -> etree._Element:
    if b"\0" in document:
        raise NotWellFormed("the document has a NUL byte: only UTF-8 is accepted")
    try:
        root = etree.fromstring(document, parser)
    except etree.XMLSyntaxError as error:
        line, column = error.position
        raise NotWellFormed(str(error.msg), line=line, column=column) from None
    encoding = root.getroottree().docinfo.encoding
    if encoding is not None and not is_utf8(encoding):
        raise NotWellFormed(f"the document is in {encoding[:40]!r}: only UTF-8 is accepted")
    return root


def make_parser() -> etree.XMLParser:
    return etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False)


_parser = make_parser()
#: In each document of the highest level: the word, or a character reference.
_LEVEL_HINT: Final = re.compile(rb"high|&#")


def _build_event(root: etree._Element, name: str, version: str, document: bytes) -> Event:
    parts = _children(root)
    kind = _first(parts, "EventType")
    client_id, timestamp, sequence_number, incarnation = map(
        _text, _first(parts, "EventId").iterchildren("*")
    )
    return Event(
        stream=_text(_first(parts, "StreamId")),
        event_id=EventId(client_id, int(timestamp), int(sequence_number), int(incarnation)),
        event_type=EventType(
            name=name,
            version=version,
            latest_version=_optional(_children(kind), "LatestVersionNum"),
            security_level=SecurityLevel(kind.get("Securitylevel", "med")),
            liveness=Liveness(kind.get("Liveness", "live")),
        ),
        linkage=parse_linkage(_first(parts, "EventLinkage")),
        application_types=tuple(map(_text, parts.get("ApplicationType", ()))),
        summary=_optional(parts, "Summary"),
        payload=find_payload_bytes(document, root),
        document=document,
    )


def parse_linkage(element: etree._Element) -> EventLinkage:
    """Raises ValueError."""
    parts = _children(element)
    ids = map(_text, parts.get("BundleId", ()))
    numbers = map(_text, parts.get("BundleNumber", ()))
    linkage = _children(_first(parts, "BundleLinkage"))
    return EventLinkage(
        bundles=tuple(Bundle(i, int(n)) for i, n in zip(ids, numbers, strict=True)),
        time_constraint=_optional(linkage, "TimeConstraint"),
        merge_scheme=_optional(linkage, "MergeScheme"),
        order=tuple(
            Order(_text(e), e.tag == f"{_Q}BundleId")
            for e in _first(parts, "BundleOrder").iterchildren("*")
        ),
    )


_Children: TypeAlias = dict[str, list[etree._Element]]


def _children(parent: etree._Element) -> _Children:
    found: _Children = {}
    for child in parent.iterchildren(f"{_Q}*"):
        found.setdefault(str(child.tag)[len(_Q) :], []).append(child)
    return found


def _first(parts: _Children, name: str) -> etree._Element:
    if name not in parts:
        raise ValueError(f"Mspaces:{name} is missing")
    return parts[name][0]


def _optional(parts: _Children, name: str) -> str | None:
    return _text(parts[name][0]) if name in parts else None


def _text(element: etree._Element) -> str:
    """Omit comments and processing instructions, as XPath does."""
    text = element.text or ""
    if len(element):
        text += "".join(remark.tail or "" for remark in element)
    return text
