"""Read the linkage of an event from its document."""

from __future__ import annotations

from broker.errors import BadEnvelope
from broker.event.envelope import NAMESPACE, EventLinkage
from broker.event.reader import parse_document, parse_linkage

_LINKAGE = f"{{{NAMESPACE}}}EventLinkage"


def read_linkage(document: bytes) -> EventLinkage:
    """Raises `NotWellFormed` or `BadEnvelope`."""
    element = next(parse_document(document).iterchildren(_LINKAGE), None)
    try:
        if element is None:
            raise ValueError("Mspaces:EventLinkage is missing")
        return parse_linkage(element)
    except ValueError as error:
        raise BadEnvelope(f"the linkage can not be read: {error}") from None
