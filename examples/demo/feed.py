"""Events of the demonstration, and lxml's matches for each subscriber."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import attrs
from lxml import etree

from broker.event.envelope import EventType
from broker.event.writer import extract_payload_element
from broker.testing.events import air_traffic

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "voevent"
#: In the order of the nights.
ARCHIVES = ("2014-04.001.tar.bz2", "2020-06.002.tar.bz2", "2021-09.002.tar.bz2")


@attrs.frozen
class Item:
    stream: str
    event_type: EventType
    payload: bytes


@attrs.frozen
class Feed:
    """Events and four queries; the last one matches everything."""

    name: str
    items: list[Item]
    queries: tuple[str, ...]
    default_role: bool
    """True if the DTD gives a root without a role one (VOEvent)."""

    def expected(self) -> list[list[int]]:
        """Return, by query, the indices of the items that match according to lxml."""
        compiled = [etree.XPath(query, regexp=False) for query in self.queries]
        found: list[list[int]] = [[] for _ in self.queries]
        for index, item in enumerate(self.items):
            root = etree.fromstring(item.payload)
            if self.default_role and root.get("role") is None:
                root.set("role", "observation")
            document = etree.ElementTree(root)
            for matches, xpath in zip(found, compiled, strict=True):
                if xpath(document):
                    matches.append(index)
        return found


def read_voevents() -> Feed:
    """Read the archive in order of arrival, with its filters."""
    filters = (SHARED / "xpath-filters-comet-docs.txt").read_text().splitlines()
    queries = [line for line in filters if line and not line.startswith("#")]
    return Feed("the VOEvent archive", list(_packets()), (*queries, "true()"), True)


def _packets() -> Iterator[Item]:
    for archive in ARCHIVES:
        with tarfile.open(SHARED / archive) as tar:
            for member in tar:
                file = tar.extractfile(member)
                if file is None:
                    continue
                payload = extract_payload_element(file.read())
                version = "1.1" if b"VOEvent/v1.1" in payload[:400] else "2.0"
                stream = "voevent." + member.name.split("/")[0].replace(".", "-")
                yield Item(stream, EventType("VOEvent", version), payload)


def generate_feed(count: int) -> Feed:
    """Generate events for machines without the archive."""
    items = [
        Item(event.stream, event.event_type, event.payload) for event in air_traffic(count, seed=2)
    ]
    queries = (
        "/asdi/track[altitude > 300]",
        'starts-with(/asdi/*/aircraftId, "UAL")',
        '/asdi[facility="KZBW"]/track',
        "true()",
    )
    return Feed("a generated air-traffic feed", items, queries, False)


def load_feed(limit: int | None) -> Feed:
    """Return the archive's feed if it is there, else a generated one."""
    feed = read_voevents() if SHARED.is_dir() else generate_feed(18_164)
    return feed if limit is None else attrs.evolve(feed, items=feed.items[:limit])
