"""Events of public formats: real ones with other values, or made-up ones."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any, Final

import attrs
from lxml import etree

from benchmarks.workloads.feed_schema import infer_schema
from benchmarks.workloads.voevent_packets import SHARED_DATA
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.derivation.driver import write_driver
from broker.dtd.derivation.inference import infer_dtd
from broker.dtd.derivation.sample_statistics import SampleStatistics
from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference
from broker.dtd.xsd.bundle import write_instruction
from broker.event.envelope import EventType
from broker.event.event_id import EventIdGenerator
from broker.event.writer import write_event
from examples.feeds import documents

STREAM: Final = "feeds"
_SEED: Final = 1
#: Documents with structures of their own in a made-up feed.
_MADE_UP: Final = 40
#: Real files, and the local name of the events in them.
_REAL: Final = {
    "CAP": ("cap-google/*.cap", "alert"),
    "SWIM": ("faa-swim-race/tfmDataService.xml", "fltdMessage"),
}
NAMES: Final = tuple(_REAL)
#: Values that are replaced; others have a meaning, such as dates and codes.
_NUMBER: Final = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,9})?")
_IDENTIFIER: Final = re.compile(r"[A-Z]{1,4}[0-9]{2,12}")
_DIGIT: Final = re.compile(r"[0-9]")
#: Prefixes for the same namespaces at several publishers.
_PREFIXES: Final = (
    ("ns2", "ns3", "ns4", "ns5", "ns6", "ns7"),
    ("ns4", "ns2", "ns3", "ns6", "ns5", "ns7"),
    ("a", "b", "c", "d", "e", "f"),
)


@attrs.frozen
class FeedDocuments:
    name: str
    is_real: bool
    events: Sequence[bytes]
    """With the structures of the feed, and other values."""
    rebound: Sequence[bytes]
    """The same with other prefixes, which differ from one to the next."""
    dtd: tuple[DtdReference, bytes]
    """Inferred from the feed."""
    schema: tuple[DtdReference, bytes]
    """The DTD with an XML Schema, made from the events."""

    @property
    def size(self) -> float:
        """Mean bytes of an event."""
        return sum(map(len, self.events)) / len(self.events)


def feed_documents(name: str, count: int) -> FeedDocuments:
    """Return so many events of the real feed, or of a made-up one where there is none."""
    roots = _real_roots(*_REAL[name])
    is_real = bool(roots)
    if not roots:
        roots = _made_up_roots(name)
    reference = DtdReference(name.lower(), "1.0")
    statistics = SampleStatistics()
    for root in roots:
        statistics.add_payload(root)
    chance = random.Random(_SEED)
    ids = EventIdGenerator("publisher", 1), EventIdGenerator("publisher", 1)
    kind = EventType(reference.type, reference.version)
    payloads: list[etree._Element] = []
    events: list[bytes] = []
    rebound: list[bytes] = []
    for number in range(count):
        root = _vary(roots[number % len(roots)], chance)
        payloads.append(root)
        other = _rebind(root, _PREFIXES[number // len(roots) % len(_PREFIXES)])
        for found, mint, each in ((events, ids[0], root), (rebound, ids[1], other)):
            found.append(write_event(mint.next_id(number), STREAM, kind, _write(each)))
    dtd = write_driver(infer_dtd(statistics, reference)).text.encode()
    text = dtd + b"\n" + write_instruction(infer_schema(payloads).pack())
    schema = Dtd.load(reference, text, Catalogue.load(shipped_folder()).read)
    return FeedDocuments(
        name,
        is_real,
        events,
        rebound,
        (reference, dtd),
        (attrs.evolve(reference, variant=schema.content_hash), schema.text),
    )


def _real_roots(files: str, event: str) -> list[etree._Element]:
    """Return none if there are no real files on this machine."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    found: list[etree._Element] = []
    for file in sorted(SHARED_DATA.glob(files)):
        try:
            root = etree.parse(file, parser).getroot()
        except etree.XMLSyntaxError:
            continue
        if root.getroottree().docinfo.internalDTD is not None:
            continue
        etree.strip_tags(root, etree.Comment)
        # Each has the bindings of its ancestors.
        events = [etree.fromstring(_write(each)) for each in root.iter(f"{{*}}{event}")]
        found += [each for each in events if _has_shape(each)]
    return found


def _has_shape(root: etree._Element) -> bool:
    """Return False for a document that is always parsed, whatever its type."""
    texts = "".join(map(str, root.itertext()))
    return b"&" not in _write(root) and '"' not in texts


def _made_up_roots(name: str) -> list[etree._Element]:
    chance = random.Random(_SEED)
    if name == "SWIM":
        delivery = documents.flight_messages(chance, 0, _MADE_UP).encode()
        messages = etree.fromstring(delivery).iter("{*}fltdMessage")
        return [etree.fromstring(_write(each)) for each in messages]
    return [etree.fromstring(documents.alert(chance, number)) for number in range(_MADE_UP)]


def _vary(root: etree._Element, chance: random.Random) -> etree._Element:
    """Return the document with other numbers and identifiers of the same lengths."""
    varied = etree.fromstring(_write(root))
    for element in varied.iter("*"):
        if not len(element) and element.text:
            element.text = _vary_value(element.text, chance)
        for key, value in element.attrib.items():
            element.set(key, _vary_value(str(value), chance))
    return varied


def _vary_value(value: str, chance: random.Random) -> str:
    if not (_NUMBER.fullmatch(value) or _IDENTIFIER.fullmatch(value)):
        return value
    return _DIGIT.sub(lambda _: str(chance.randrange(1, 10)), value)


def _rebind(root: etree._Element, prefixes: Sequence[str]) -> etree._Element:
    """Return the document with these prefixes, in the order of the namespaces' first use."""
    uris = dict.fromkeys(
        uri
        for each in root.iter("*")
        for name in (each.tag, *each.attrib)
        if (uri := etree.QName(name).namespace)
    )
    bound = dict(zip(prefixes, uris, strict=False))
    target = etree.Element(root.tag, None, bound)
    _copy(root, target)
    return target


def _copy(source: Any, target: Any) -> None:
    target.text = source.text
    target.attrib.update(source.attrib)
    for child in source.iterchildren("*"):
        copied = etree.SubElement(target, child.tag)
        copied.tail = child.tail
        _copy(child, copied)


def _write(root: etree._Element) -> bytes:
    return etree.tostring(root, encoding="unicode", with_tail=False).encode()
