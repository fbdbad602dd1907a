"""Feeds of public formats: made-up ones, and real ones outside the checkout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

import attrs
from lxml import etree

from examples.feeds import documents
from tests.capability import SHARED_DATA, need

_SCHEMA: Final = Path(documents.__file__).parent / "cap.xsd"
#: Attacks and broken files are subjects of other tests.
_PARSER: Final = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)


@attrs.frozen
class Feed:
    name: str
    payloads: Sequence[bytes]
    schema: Path | None = None
    """Accepts each payload."""
    has_shapes: bool = True
    """False for documents with comments, or with quotes in texts: they are always parsed."""


def _made_up(name: str, make: Callable[[Random, int], str], schema: Path | None = None) -> Feed:
    chance = Random(name)
    return Feed(name, [make(chance, number).strip().encode() for number in range(20)], schema)


def _cut(text: str, tag: str) -> list[bytes]:
    return [_write(each) for each in etree.fromstring(text.encode()).iter(f"{{*}}{tag}")]


def _write(root: etree._Element) -> bytes:
    """Return an element with the bindings of its ancestors."""
    return etree.tostring(root, encoding="unicode", with_tail=False).encode()


MADE_UP: Final = (
    _made_up("cap", documents.alert, _SCHEMA),
    Feed("siri", _cut(documents.vehicles(Random(1), 20), "VehicleActivity")),
    Feed("siri-delivery", [documents.vehicles(Random(2), 20).strip().encode()]),
    Feed("swim", _cut(documents.flight_messages(Random(1), 0, 20), "fltdMessage")),
    Feed("swim-delivery", [documents.flight_messages(Random(2), 0, 20).strip().encode()]),
    _made_up("iwxxm", lambda chance, n: documents.metar(chance, n).partition("\n")[2]),
    _made_up("cot", documents.cursor),
    _made_up("nitf", documents.article),
)

#: Real feeds: files, the local name of the events in them, and a schema that names its namespace.
_REAL: Final = {
    "cap-1.1": ("cap-google/*.cap", "alert", "cap-google/cap11.xsd"),
    "cap-1.2": ("cap-google/*.cap", "alert", "cap-google/cap12.xsd"),
    "swim-tfms": ("faa-swim-race/tfm*.xml", "fltdMessage", ""),
    "swim-sfdps": ("faa-swim-race/sfdps*.xml", "flight", ""),
    "swim-asdex": ("faa-swim-race/asdex*.xml", "positionReport", ""),
    "swim-tais": ("faa-swim-race/tais*.xml", "record", ""),
    "iwxxm-3.0": ("iwxxm-fmi/iwxxm-30-*.xml", "", ""),
    "iwxxm": ("iwxxm-fmi/*.xml", "", ""),
    "nitf": ("nitf-benchmark/nitf-test.xml", "nitf", ""),
    "newsml": ("nitf-benchmark/newsml-index.xml", "NewsML", ""),
}
REAL_NAMES: Final = tuple(_REAL)


def real_feed(name: str) -> Feed:
    """Skips the test where there are no real data."""
    need("shared-data")
    files, event, schema_file = _REAL[name]
    roots = list(_events(sorted(SHARED_DATA.glob(files)), event))
    if not schema_file:
        payloads = [_write(each) for each in roots]
        return Feed(f"real-{name}", payloads, has_shapes=name not in ("nitf", "newsml"))
    schema = etree.XMLSchema(etree.parse(SHARED_DATA / schema_file))
    # There is no schema for signatures.
    unsigned = [each for each in roots if each.find("{*}Signature") is None]
    valid = [_write(each) for each in unsigned if schema.validate(each)]
    assert valid, name
    return Feed(f"real-{name}", valid, SHARED_DATA / schema_file)


def _events(files: Sequence[Path], event: str) -> Iterator[etree._Element]:
    for file in files:
        try:
            root = etree.parse(file, _PARSER).getroot()
        except etree.XMLSyntaxError:
            continue
        if any(isinstance(each, etree._Entity) for each in root.iter()):
            continue
        yield from root.iter(f"{{*}}{event}") if event else [root]
