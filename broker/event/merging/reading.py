"""The linkage of an event from its document, without reading the rest of it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from lxml import etree

from broker.event.envelope import NAMESPACE, EventLinkage
from broker.event.reading import linkage_of_element, read_event

_LINKAGE = re.compile(rb"<Mspaces:EventLinkage\b[^>]*>.*?</Mspaces:EventLinkage\s*>", re.DOTALL)
#: Where one of these comes before the linkage, bytes that look like one may be none.
_REMARKS = re.compile(rb"<!--|<!\[CDATA\[|(?!^)<\?")
_AROUND: Final = b'<Mspaces:Event xmlns:Mspaces="%s">' % NAMESPACE.encode()


def linkage_of(document: bytes) -> EventLinkage:
    """What the event links to. Raises `NotWellFormed` or `BadEnvelope`.

    Events of a stream mostly have the same bytes here, or one number that counts: so this costs
    one look-up, or a parse of the few bytes alone.
    """
    found = _LINKAGE.search(document)
    if found is None or _REMARKS.search(document, 0, found.end()):
        return read_event(document).linkage
    try:
        return _linkage(found.group())
    except (etree.XMLSyntaxError, ValueError):
        # Whatever is odd about it is told by who reads all of it.
        return read_event(document).linkage


@lru_cache(maxsize=4096)
def _linkage(text: bytes) -> EventLinkage:
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    root = etree.fromstring(_AROUND + text + b"</Mspaces:Event>", parser)
    return linkage_of_element(root[0])
