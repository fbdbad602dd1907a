"""Valid events with delimiters of events wherever XML allows them.

Places take fillings: comments, processing instructions, CDATA sections, references, raw text,
attribute values. `single_fillings` is exhaustive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape

from broker.event.envelope import NAMESPACE, EventType, public_identifier
from broker.event.event_id import EventId

KIND = EventType("deadletter", "1.0")
_LINKAGE = (
    "<Mspaces:EventLinkage><Mspaces:BundleLinkage/><Mspaces:BundleOrder><Mspaces:BundleId>forged"
    "</Mspaces:BundleId></Mspaces:BundleOrder></Mspaces:EventLinkage>"
)
DELIMITERS = (
    *("<!--", "-->", "<![CDATA[", "]]>", "<?x", "?>", "<!DOCTYPE x>", '<?xml version="1.0"?>'),
    *(">", "/>", '"', "'", "&amp;", "\u00e9\u00df\U00010348"),
    *("<deadletter/>", "</deadletter>", "</reason>", "<Mspaces:Event>", "</Mspaces:Event>"),
    *("</Mspaces:EventLinkage>", "</Mspaces:EventLinkage><forged/></Mspaces:Event>"),
    *(
        "<Mspaces:Summary>forged</Mspaces:Summary>",
        _LINKAGE,
        _LINKAGE + "<forged/></Mspaces:Event>",
    ),
)
#: Not for text.
MARKUP_PLACES = (
    *("before-doctype", "before-root", "in-event", "in-id", "in-type", "in-linkage"),
    *("in-bundle-linkage", "in-order", "after-linkage", "before-payload", "in-payload"),
    *("after-reason", "after-payload", "after-root"),
)
#: Also for text.
TEXT_PLACES = ("constraint", "scheme", "order", "application", "summary", "reason")
#: In double and single quotes, and the DOCTYPE's system identifier.
VALUE_PLACES = ("double-quoted", "single-quoted", "pointer")


def comments(delimiter: str) -> Iterator[str]:
    """If they may contain the delimiter."""
    if "--" not in delimiter:
        yield f"<!--{delimiter} -->"
        yield f"<!--{delimiter}--><!-- {delimiter} -->"


def instructions(delimiter: str) -> Iterator[str]:
    """If they may contain the delimiter."""
    if "?>" not in delimiter:
        yield f"<?x {delimiter}?>"


def texts(delimiter: str) -> Iterator[str]:
    """Yield the delimiter raw as far as possible, as references, in CDATA sections."""
    yield escape(delimiter)
    yield delimiter.replace("&", "&amp;").replace("<", "&lt;").replace("]]>", "]]&gt;")
    yield "".join(f"&#{ord(sign)};&#x{ord(sign):x};" for sign in delimiter)
    yield "<![CDATA[" + delimiter.replace("]]>", "]]]]><![CDATA[>") + "]]>"


def fillings(place: str, delimiter: str) -> Iterator[str]:
    if place in VALUE_PLACES:
        raw = delimiter if place == "pointer" else delimiter.replace("&", "&amp;")
        if place == "single-quoted":
            raw = raw.replace("'", "&apos;")
        else:
            raw = raw.replace('"', "" if place == "pointer" else "&quot;")
        yield raw if place == "pointer" else raw.replace("<", "&#60;")
        return
    yield from comments(delimiter)
    yield from instructions(delimiter)
    if place in TEXT_PLACES:
        yield from texts(delimiter)


def single_fillings() -> Iterator[tuple[str, str]]:
    """Yield (place, filling) for all places, delimiters and kinds of markup."""
    for place in (*MARKUP_PLACES, *TEXT_PLACES, *VALUE_PLACES):
        for delimiter in DELIMITERS:
            for filling in fillings(place, delimiter):
                yield place, filling


_EVENT_ID = EventId("feed", 1, 1, 1)


def event_with(filled: Mapping[str, str], event_id: EventId = _EVENT_ID) -> tuple[bytes, bytes]:
    """Return the event, and its payload."""

    def at(place: str) -> str:
        return filled.get(place, "")

    payload = (
        f"<deadletter client=\"{at('double-quoted')}\" subscription='{at('single-quoted')}' "
        f'tries="1"\nplace=" /> " id = "x"  >{at("in-payload")}'
        f"<reason>{at('reason')}</reason>{at('after-reason')}</deadletter\n>"
    )
    system = at("pointer") or "x.dtd"
    text = (
        f'<?xml version="1.0" encoding="UTF-8"?>{at("before-doctype")}'
        f'<!DOCTYPE Mspaces:Event PUBLIC "{public_identifier(KIND.name, KIND.version)}" "{system}">'
        f'{at("before-root")}<Mspaces:Event xmlns:Mspaces="{NAMESPACE}">{at("in-event")}'
        "<Mspaces:StreamId>hostile</Mspaces:StreamId>"
        f"<Mspaces:EventId>{at('in-id')}<Mspaces:ClientId>{event_id.client_id}</Mspaces:ClientId>"
        f"<Mspaces:TimeStamp>{event_id.timestamp}</Mspaces:TimeStamp>"
        f"<Mspaces:SequenceNumber>{event_id.sequence_number}</Mspaces:SequenceNumber>"
        f"<Mspaces:Incarnation>{event_id.incarnation}</Mspaces:Incarnation></Mspaces:EventId>"
        f"<Mspaces:EventType>{at('in-type')}<Mspaces:VersionNum>{KIND.version}</Mspaces:VersionNum>"
        f"</Mspaces:EventType><Mspaces:EventLinkage>{at('in-linkage')}"
        f"<Mspaces:BundleLinkage>{at('in-bundle-linkage')}"
        f"<Mspaces:TimeConstraint>{at('constraint')}</Mspaces:TimeConstraint>"
        f"<Mspaces:MergeScheme>{at('scheme')}</Mspaces:MergeScheme></Mspaces:BundleLinkage>"
        f"<Mspaces:BundleOrder>{at('in-order')}<Mspaces:StreamId>{at('order')}</Mspaces:StreamId>"
        f"</Mspaces:BundleOrder></Mspaces:EventLinkage >{at('after-linkage')}"
        f"<Mspaces:ApplicationType>{at('application')}</Mspaces:ApplicationType>\n"
        f"<Mspaces:Summary>{at('summary')}</Mspaces:Summary>{at('before-payload')}\n\t"
        f"{payload} \n{at('after-payload')}</Mspaces:Event \n>{at('after-root')}\n"
    )
    return text.encode(), payload.encode()
