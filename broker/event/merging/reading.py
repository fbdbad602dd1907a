"""The linkage of an event from its document, without reading the rest of it."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from lxml import etree

from broker.event.envelope import NAMESPACE, EventLinkage
from broker.event.reading import linkage_of_element, read_event

_BEGIN: Final = b"<Mspaces:EventLinkage"
_END: Final = b"</Mspaces:EventLinkage"
#: Where one of these comes before the linkage or in it, bytes that look like one may be none.
_REMARKS: Final = (b"<!--", b"<![CDATA[", b"<?")
#: The declaration's own.
_AFTER_DECLARATION: Final = 2
#: Longer ones are read anew each time: the texts that are remembered take limited room.
_LONGEST_KEPT: Final = 2_048
_AROUND: Final = b'<Mspaces:Event xmlns:Mspaces="%s">' % NAMESPACE.encode()


def linkage_of(document: bytes) -> EventLinkage:
    """What the event links to. Raises `NotWellFormed` or `BadEnvelope`.

    Events of a stream mostly have the same bytes here, or one number that counts: so this costs
    one look-up, or a parse of the few bytes alone.
    """
    begin = document.find(_BEGIN)
    end = document.find(b">", document.find(_END, begin)) + 1
    plain = 0 < begin < end and not any(
        document.find(remark, _AFTER_DECLARATION, end) >= 0 for remark in _REMARKS
    )
    if not plain:
        return read_event(document).linkage
    read = _known if end - begin <= _LONGEST_KEPT else _linkage
    try:
        return read(document[begin:end])
    except (etree.XMLSyntaxError, ValueError):
        # Whatever is odd about it is told by who reads all of it.
        return read_event(document).linkage


def _linkage(text: bytes) -> EventLinkage:
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    root = etree.fromstring(_AROUND + text + b"</Mspaces:Event>", parser)
    return linkage_of_element(root[0])


_known = lru_cache(maxsize=4096)(_linkage)
