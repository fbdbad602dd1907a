"""Real packets of a network of VOEvent brokers, as events of the shipped DTDs."""

from __future__ import annotations

import random
import re
import tarfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from lxml import etree

from broker.event.envelope import EventType
from broker.event.event_id import EventIdGenerator
from broker.event.writer import extract_payload_element, write_event

#: Outside the checkout.
SHARED_DATA: Final = Path(__file__).resolve().parents[3] / "shared" / "data"
STREAM: Final = "voevent"
NAMESPACES: Final = {"voe": "http://www.ivoa.net/xml/VOEvent/v2.0"}
#: One week of April 2014 has 14,196 packets, 98 of them of version 1.1.
_ARCHIVE: Final = "2014-04.001.tar.bz2"
_SEED: Final = 1
_VERSION: Final = re.compile(rb'<voe:VOEvent[^>]*?\sversion="([0-9.]+)"')


class NoData(Exception):
    """The real documents are not on this machine."""


def load_packets(count: int | None = None) -> list[bytes]:
    """Return packets in random order. Raises `NoData`.

    The archive has them publisher by publisher.
    """
    archive = SHARED_DATA / "voevent" / _ARCHIVE
    if not archive.is_file():
        raise NoData("the real VOEvents (../shared/data/voevent) are missing next to this checkout")
    found = list(_members(archive))
    random.Random(_SEED).shuffle(found)
    return found[:count]


def voevent_events(event_ids: EventIdGenerator, packets: Sequence[bytes]) -> Iterator[bytes]:
    """Ids are given in order."""
    now = time.time_ns() // 1_000_000
    types: dict[str, EventType] = {}
    for packet in packets:
        version = _version(packet)
        event_type = types.setdefault(version, EventType("VOEvent", version))
        yield write_event(
            event_ids.next_id(now), STREAM, event_type, extract_payload_element(packet)
        )


class Sample:
    """Values for the literals of queries."""

    def __init__(self, packets: Sequence[bytes]) -> None:
        """Only version 2.0: a query names the elements of one version."""
        self.packets = 0
        self.identifiers: list[str] = []
        self.parameters: dict[str, list[str]] = {}
        """By name, one for each occurrence."""
        self.places: list[tuple[float, float]] = []
        """Right ascension and declination, in degrees."""
        for packet in packets:
            if _version(packet) == "2.0":
                self._add(etree.fromstring(packet))

    def _add(self, root: etree._Element) -> None:
        self.packets += 1
        self.identifiers.append(root.get("ivorn") or "")
        for parameter in root.iter("Param"):
            name, value = parameter.get("name"), parameter.get("value")
            if name is not None and value is not None:
                self.parameters.setdefault(name, []).append(value)
        for place in root.iter("Value2"):
            first, second = place.findtext("C1"), place.findtext("C2")
            if first is not None and second is not None:
                self.places.append((float(first), float(second)))


def _members(archive: Path) -> Iterator[bytes]:
    with tarfile.open(archive) as opened:
        for member in opened:
            file = opened.extractfile(member) if member.name.endswith(".xml") else None
            if file is not None:
                yield file.read()


def _version(packet: bytes) -> str:
    found = _VERSION.search(packet)
    if found is None:
        raise NoData("a packet in the archive does not say its version")
    return found.group(1).decode()
