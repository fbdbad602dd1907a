"""The payload of an event: its element in the parsed tree, and its bytes in the document."""

from __future__ import annotations

from lxml import etree

from broker.errors import BadEnvelope
from broker.event.byte_index import end_of_element, start_of_element
from broker.event.envelope import NAMESPACE

_Q = f"{{{NAMESPACE}}}"
#: Any other child is the payload.
ENVELOPE_CHILDREN = frozenset(
    {_Q + name for name in ("StreamId", "EventId", "EventType", "EventLinkage")}
    | {_Q + "ApplicationType", _Q + "Summary"}
)
_SPACE = b" \t\r\n"
_AFTER_A_NAME = _SPACE + b"/>"


def find_payload_element(root: etree._Element) -> etree._Element | None:
    """Return the payload's element or None. Raises `BadEnvelope` for two payloads."""
    payloads = [child for child in root.iterchildren("*") if child.tag not in ENVELOPE_CHILDREN]
    if len(payloads) > 1:
        raise BadEnvelope("there is more than one payload element")
    return payloads[0] if payloads else None


def find_payload_bytes(document: bytes, root: etree._Element) -> bytes | None:
    """Return the element's bytes, from its `<` to its last `>`.

    Raises `InvalidEvent` if expat does not find the tree's element.
    """
    payload = find_payload_element(root)
    if payload is None:
        return None
    # lxml and expat number elements alike, in document order.
    number = next(n for n, element in enumerate(root.iter("*")) if element is payload)
    start = start_of_element(document, number)
    found = _find_trailing_payload(document, root, payload, start)
    if found is None:
        count = sum(1 for _ in payload.iter("*"))
        found = document[start : end_of_element(document, number, count)]
    tag = b"<" + _qualified_name(payload)
    if not found.startswith(tag) or found[len(tag) : len(tag) + 1] not in _AFTER_A_NAME:
        raise BadEnvelope("two parsers find different payloads")
    return found


def _find_trailing_payload(
    document: bytes, root: etree._Element, payload: etree._Element, start: int
) -> bytes | None:
    """Return the payload's bytes if only blanks and the root's end tag follow it, else None.

    Then the last `</` starts that tag, and expat need not read the payload.
    """
    tail = payload.tail
    if (
        payload.getnext() is not None
        or root.getnext() is not None
        or (tail is not None and tail.strip(_SPACE.decode()))
    ):
        return None
    found = document[start : document.rindex(b"</")].rstrip(_SPACE)
    # Blanks may be references or in a CDATA section.
    return found if found.endswith(b">") and not found.endswith(b"]]>") else None


def _qualified_name(element: etree._Element) -> bytes:
    local = str(element.tag).rpartition("}")[2]
    return (f"{element.prefix}:{local}" if element.prefix else local).encode()
