"""The linkage of an event from its document."""

from __future__ import annotations

from broker.errors import BadEnvelope
from broker.event.envelope import NAMESPACE, EventLinkage
from broker.event.reading import linkage_of_element, parse_document

_LINKAGE = f"{{{NAMESPACE}}}EventLinkage"


def linkage_of(document: bytes) -> EventLinkage:
    """What the event links to. Raises `NotWellFormed` or `BadEnvelope`."""
    element = next(parse_document(document).iterchildren(_LINKAGE), None)
    try:
        if element is None:
            raise ValueError("Mspaces:EventLinkage is missing")
        return linkage_of_element(element)
    except ValueError as error:
        raise BadEnvelope(f"the linkage can not be read: {error}") from None
