from __future__ import annotations

import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from lxml import etree

from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference

_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
_XML_DECLARATION = re.compile(rb"^\s*<\?xml[^>]*\?>\s*")


def read_event(event: bytes) -> etree._Element:
    """Parse like a node: nothing is loaded, resolved or supplied."""
    return etree.fromstring(event, _PARSER)


def write_event(
    payload: bytes = b"",
    type_name: str = "flight",
    version: str = "1.0",
    *,
    linkage: bytes = b"",
    event_type: bytes = b"",
    rest: bytes = b"",
) -> bytes:
    """`linkage` goes first in EventLinkage, `event_type` into the tag of EventType, `rest` behind
    EventLinkage."""
    reference = DtdReference(type_name, version)
    return b"".join(
        (
            f'<!DOCTYPE Mspaces:Event PUBLIC "{reference.public_id}" "'.encode(),
            f'{reference.system_id}">\n'.encode(),
            b'<Mspaces:Event xmlns:Mspaces="urn:xmlbroker:mspaces">',
            b"<Mspaces:StreamId>asdi.zbw.tz</Mspaces:StreamId><Mspaces:EventId>",
            b"<Mspaces:ClientId>feed</Mspaces:ClientId>",
            b"<Mspaces:TimeStamp>1700000000000</Mspaces:TimeStamp>",
            b"<Mspaces:SequenceNumber>1</Mspaces:SequenceNumber>",
            b"<Mspaces:Incarnation>1</Mspaces:Incarnation></Mspaces:EventId>",
            b"<Mspaces:EventType" + event_type + b"><Mspaces:VersionNum>",
            version.encode(),
            b"</Mspaces:VersionNum></Mspaces:EventType>",
            b"<Mspaces:EventLinkage>" + linkage + b"<Mspaces:BundleLinkage/>",
            b"<Mspaces:BundleOrder><Mspaces:StreamId>asdi.zbw.tz</Mspaces:StreamId>",
            b"</Mspaces:BundleOrder></Mspaces:EventLinkage>",
            rest,
            _XML_DECLARATION.sub(b"", payload),
            b"</Mspaces:Event>",
        )
    )


FLIGHT = (
    b'<flight><id>UAL1021</id><flightleg status="active"><speed type="ground">512</speed>'
    b'<altitude type="reported" mode="plain">290</altitude>'
    b"<coordinate><lat>4928N</lat><lon>12003W</lon></coordinate></flightleg></flight>"
)


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return Catalogue.load(shipped_folder())


@pytest.fixture(scope="session")
def shipped(catalogue: Catalogue) -> Callable[[str, str], Dtd]:
    def load(type_name: str, version: str) -> Dtd:
        reference = DtdReference(type_name, version)
        text = catalogue.read(reference.public_id, reference.system_id)
        assert text is not None
        return Dtd.load(reference, text, catalogue.read)

    return load


@pytest.fixture
def event() -> Callable[..., bytes]:
    return write_event


@pytest.fixture
def parse() -> Callable[[bytes], etree._Element]:
    return read_event


@pytest.fixture
def flight() -> bytes:
    """The papers' flight record (D88), with K10."""
    return FLIGHT


@pytest.fixture(scope="session")
def voevents(shared_data: Path) -> list[bytes]:
    """All real packets, in order of arrival."""
    packets = []
    for archive in sorted((shared_data / "voevent").glob("*.tar.bz2")):
        with tarfile.open(archive) as tar:
            for member in tar:
                file = tar.extractfile(member)
                if file is not None:
                    packets.append(file.read())
    return packets
