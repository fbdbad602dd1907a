"""Real documents: few shapes of VOEvents, deep documents, and documents that do not recur."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree

from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference
from broker.event.envelope import EventType
from broker.event.event_id import EventIdGenerator
from broker.event.writer import extract_payload_element, write_event
from broker.matching.shape.tree import Node, NodeKind
from tests.matching.conftest import load_dtd
from tests.matching.shape.oracle import CheckedCache, check_tree

_ENVELOPE = """
<!ENTITY % Mspaces.content ", ({root})">
<!ENTITY % Mspaces.envelope
         PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN" "mspaces-1.1.mod">
%Mspaces.envelope;
"""


def shipped(type_name: str, version: str) -> Dtd:
    catalogue, reference = Catalogue.load(shipped_folder()), DtdReference(type_name, version)
    text = catalogue.read(reference.public_id, reference.system_id)
    assert text is not None
    return Dtd.load(reference, text, catalogue.read)


def packets(folder: Path, name: str) -> Iterator[bytes]:
    with tarfile.open(folder / "voevent" / name) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None:
                yield file.read()


def events(packets: Iterator[bytes]) -> Iterator[bytes]:
    mint = EventIdGenerator("feed", 1)
    for n, packet in enumerate(packets):
        kind = EventType("VOEvent", "1.1" if b'version="1.1"' in packet[:1500] else "2.0")
        yield write_event(mint.next_id(n), "voevent", kind, extract_payload_element(packet))


@pytest.mark.soak
def test_a_week_of_voevents_has_few_shapes(shared_data: Path) -> None:
    checked = CheckedCache(shipped("VOEvent", "1.1"), shipped("VOEvent", "2.0"))
    seen, misses = arrive(checked, shared_data, "2014-04.001.tar.bz2")
    assert seen == 14_196
    assert misses < 0.02 * seen
    assert 50 < len(checked.cache) < 90


def test_two_days_of_voevents_have_few_shapes(shared_data: Path) -> None:
    checked = CheckedCache(shipped("VOEvent", "2.0"))
    seen, misses = arrive(checked, shared_data, "2021-09.002.tar.bz2")
    assert seen == 3_674
    assert misses < 0.04 * seen
    assert 20 < len(checked.cache) < 50
    (statistics,) = checked.cache.types.values()
    assert statistics.hits == seen - misses
    assert statistics.not_learnable == {}


def arrive(checked: CheckedCache, folder: Path, name: str) -> tuple[int, int]:
    """Return the numbers of packets and of unrecognised packets, in order of arrival.

    Every hundredth packet, if recognised, is compared with the parser.
    """
    seen = misses = 0
    for document in events(packets(folder, name)):
        seen += 1
        found = checked.recognise(document)
        if found is None:
            misses += 1
            dtd, root = checked.dtd_of(document), checked.parsed(document)
            checked.cache.learn(document, root, dtd)
        elif seen % 100 == 0:
            root = checked.parsed(document)
            assert checked.dtd_of(document).check(root) is None
            check_tree(found[0], found[1], root)
    return seen, misses


def test_descriptions_of_a_parameter_stay_constant(shared_data: Path) -> None:
    """Queries such as `//Param[@name="SC_Lat"]` are then decided once per shape."""
    checked = CheckedCache(shipped("VOEvent", "2.0"))
    arrive(checked, shared_data, "2020-06.002.tar.bz2")
    shape = max(checked.cache._weights, key=lambda each: each.hits)
    assert shape.payload is not None
    described = [
        attribute
        for element in _elements(shape.payload)
        for attribute in element.attributes
        if attribute.local in ("name", "unit", "ucd", "dataType", "role")
    ]
    assert len(described) > 20
    assert all(isinstance(attribute.value, bytes) for attribute in described)


def _elements(node: Node) -> Iterator[Node]:
    for child in node.children:
        if child.kind is NodeKind.ELEMENT:
            yield child
            yield from _elements(child)


def permissive(root: etree._Element) -> bytes:
    """Return a DTD that allows any content with the names of this document."""
    attributes: dict[str, set[str]] = {}
    for element in root.iter("*"):
        local = etree.QName(element).localname
        known = attributes.setdefault(
            f"{element.prefix}:{local}" if element.prefix else local, set()
        )
        parent = element.getparent()
        inherited = {} if parent is None else parent.nsmap
        for prefix, uri in element.nsmap.items():
            if inherited.get(prefix) != uri:
                known.add(f"xmlns:{prefix}" if prefix else "xmlns")
        backwards = {uri: prefix for prefix, uri in element.nsmap.items()}
        for name in element.keys():
            qualified = etree.QName(str(name))
            prefix = backwards.get(qualified.namespace) if qualified.namespace else None
            known.add(f"{prefix}:{qualified.localname}" if prefix else qualified.localname)
    name = f"{root.prefix}:{etree.QName(root).localname}" if root.prefix else root.tag
    lines = [_ENVELOPE.format(root=name)]
    for element_name, names in sorted(attributes.items()):
        lines.append(f"<!ELEMENT {element_name} ANY>")
        lines += [f"<!ATTLIST {element_name} {each} CDATA #IMPLIED>" for each in sorted(names)]
    return "\n".join(lines).encode()


SWIM = {
    "asdexMsg.xml": True,
    "tais-msg.xml": True,
    "tfmDataService.xml": False,
    "sfdps-msg.xml": False,
}


@pytest.mark.parametrize("name", sorted(SWIM))
def test_deep_documents_have_shapes_up_to_the_bounds(shared_data: Path, name: str) -> None:
    payload = extract_payload_element((shared_data / "faa-swim-race" / name).read_bytes())
    root = etree.fromstring(payload)
    checked = CheckedCache(load_dtd("swim", "1.0", permissive(root)))
    kind, mint = EventType("swim", "1.0"), EventIdGenerator("feed", 1)
    for n in range(12):
        checked.meet(write_event(mint.next_id(n), "swim", kind, payload))
    assert checked.accepted == 12
    # Each of the first documents compiles a part of the expression.
    assert (checked.recognised > 3) == SWIM[name]


def test_auctions_of_many_shapes_are_accepted(shared_data: Path) -> None:
    folder = shared_data / "xmark-nux"
    declarations = (folder / "auction.dtd").read_bytes()
    text = _ENVELOPE.format(root="item | person | open_auction | closed_auction").encode()
    checked = CheckedCache(load_dtd("auction", "1.0", text + declarations))
    root = etree.parse(str(folder / "auction-0.01.xml")).getroot()
    kind, mint = EventType("auction", "1.0"), EventIdGenerator("feed", 1)
    for n, element in enumerate(root.iter("item", "person", "open_auction", "closed_auction")):
        element.tail = None
        checked.meet(write_event(mint.next_id(n), "auction", kind, etree.tostring(element)))
    (statistics,) = checked.cache.types.values()
    assert checked.accepted == statistics.hits + statistics.misses
    assert statistics.learnt < 128
