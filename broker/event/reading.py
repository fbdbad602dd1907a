"""Reading events: from a document's bytes to an `Event`, whole."""

from __future__ import annotations

import re

from lxml import etree

from broker.errors import BadEnvelope, NotWellFormed
from broker.event.envelope import (
    NAMESPACE,
    Bundle,
    Event,
    EventLinkage,
    EventType,
    Liveness,
    Order,
    SecurityLevel,
)
from broker.event.identity import EventId

_PUBLIC_ID = re.compile(r"-//xmlbroker//DTD ([A-Za-z][A-Za-z0-9_.-]{0,63}) ([0-9.]{1,64})//EN")
_Q = f"{{{NAMESPACE}}}"


def parse_public_identifier(public_id: str | None) -> tuple[str, str]:
    """(type name, version) of a public identifier; `BadEnvelope` if it is none of ours."""
    match = _PUBLIC_ID.fullmatch(public_id or "")
    if match is None:
        raise BadEnvelope(
            "the DOCTYPE's public identifier does not name an event type "
            f"as '-//xmlbroker//DTD TYPE VERSION//EN': {str(public_id)[:120]!r}"
        )
    return match.group(1), match.group(2)


def read_event(document: bytes) -> Event:
    """The event that the document holds, for a client or a tool that wants all of it.

    It is not validated: a node has done that. Raises `NotWellFormed` or `BadEnvelope`.
    """
    try:
        parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False)
        root = etree.fromstring(document, parser)
    except etree.XMLSyntaxError as error:
        line, column = error.position
        raise NotWellFormed(str(error.msg), line=line, column=column) from None
    name, version = parse_public_identifier(root.getroottree().docinfo.public_id)
    try:
        return _event(root, name, version, document)
    except (ValueError, AttributeError, IndexError, TypeError) as error:
        raise BadEnvelope(f"the envelope can not be read: {error}") from None


def _event(root: etree._Element, name: str, version: str, document: bytes) -> Event:
    client_id, timestamp, sequence_number, incarnation = (
        child.text or "" for child in _one(root, "EventId")
    )
    kind = _one(root, "EventType")
    own = {f"{_Q}{n}" for n in ("StreamId", "EventId", "EventType", "EventLinkage")}
    own |= {f"{_Q}ApplicationType", f"{_Q}Summary"}
    payloads = [child for child in root.iterchildren("*") if child.tag not in own]
    return Event(
        stream=_one(root, "StreamId").text or "",
        event_id=EventId(client_id, int(timestamp), int(sequence_number), int(incarnation)),
        event_type=EventType(
            name=name,
            version=version,
            latest_version=kind.findtext(f"{_Q}LatestVersionNum"),
            security_level=SecurityLevel(kind.get("Securitylevel", "med")),
            liveness=Liveness(kind.get("Liveness", "live")),
        ),
        linkage=linkage_of_element(_one(root, "EventLinkage")),
        application_types=tuple(e.text or "" for e in root.iterchildren(f"{_Q}ApplicationType")),
        summary=root.findtext(f"{_Q}Summary"),
        payload=_payload_bytes(document) if payloads else None,
        document=document,
    )


def linkage_of_element(element: etree._Element) -> EventLinkage:
    """What an EventLinkage element says; ValueError where it is none."""
    ids = [e.text or "" for e in element.iterchildren(f"{_Q}BundleId")]
    numbers = [int(e.text or "") for e in element.iterchildren(f"{_Q}BundleNumber")]
    linkage = _one(element, "BundleLinkage")
    return EventLinkage(
        bundles=tuple(Bundle(i, n) for i, n in zip(ids, numbers, strict=True)),
        time_constraint=linkage.findtext(f"{_Q}TimeConstraint"),
        merge_scheme=linkage.findtext(f"{_Q}MergeScheme"),
        order=tuple(
            Order(e.text or "", e.tag == f"{_Q}BundleId")
            for e in _one(element, "BundleOrder").iterchildren("*")
        ),
    )


def _one(parent: etree._Element, name: str) -> etree._Element:
    child = parent.find(f"{_Q}{name}")
    if child is None:
        raise ValueError(f"Mspaces:{name} is missing")
    return child


#: What may stand between the linkage and the payload: the rest of the envelope, and comments.
_BEFORE_PAYLOAD = re.compile(
    rb"</Mspaces:EventLinkage\s*>"
    rb"(?:\s+|<!--.*?-->|<\?.*?\?>"
    rb"|<Mspaces:(ApplicationType|Summary)\s*(?:/>|>[^<]*</Mspaces:\1\s*>))*",
    re.DOTALL,
)
_END = re.compile(rb"</Mspaces:Event\s*>(?:\s+|<!--.*?-->|<\?.*?\?>)*$", re.DOTALL)


def _payload_bytes(document: bytes) -> bytes:
    """What stands between the last element of the envelope and its end tag, as it stands there."""
    before = _BEFORE_PAYLOAD.search(document)
    end = _END.search(document)
    if before is None or end is None:
        raise ValueError("the envelope's end is not where it should be")
    return document[before.end() : end.start()].strip()
