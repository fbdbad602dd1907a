"""Real filters on real packets of a broker network."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from broker.dtd.catalogue import shipped_folder
from broker.dtd.reference import DtdReference
from broker.event.stream import StreamPattern
from broker.event.writer import extract_payload_element
from broker.matching.contract import Accepted
from broker.matching.query.query import parse_query
from broker.matching.reference_matcher import ReferenceMatcher
from broker.matching.undescribed import without_dtds
from tests.matching.conftest import KnownDtds, load_dtd

PACKETS = 294


def packets(folder: Path) -> Iterator[bytes]:
    with tarfile.open(folder / "voevent" / "2020-06.002.tar.bz2") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None and member.name.endswith(".xml"):
                yield file.read()


def filters(folder: Path) -> list[str]:
    lines = (folder / "voevent" / "xpath-filters-comet-docs.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_real_filters_select_real_packets_like_lxml(
    shared_data: Path, make_event: Callable[..., bytes], ticking: Any
) -> None:
    """The type is undescribed, so no DTD is needed."""
    queries = filters(shared_data)
    assert len(queries) == 3
    engine = ReferenceMatcher(KnownDtds(), clock=ticking)
    numbers = [engine.subscribe(StreamPattern.parse("voevent"), parse_query(q)) for q in queries]
    variants = without_dtds([DtdReference("VOEvent", "2.0")])
    selected = [0, 0, 0]
    seen = 0
    for packet in packets(shared_data):
        payload = extract_payload_element(packet)
        document = make_event(payload, stream="voevent", type_name="VOEvent", version="2.0")
        (verdict,) = engine.match([document], variants=variants)
        assert isinstance(verdict, Accepted), verdict
        alone = etree.fromstring(payload)
        expected = tuple(
            n for n, q in zip(numbers, queries, strict=True) if etree.XPath(q, regexp=False)(alone)
        )
        assert verdict.subscriptions == expected
        for i, number in enumerate(numbers):
            selected[i] += number in expected
        seen += 1
    assert seen == PACKETS
    assert 0 < selected[0] <= PACKETS
    assert engine.take_suspended() == []


def test_real_packets_are_valid_by_the_shipped_dtd(
    shared_data: Path, make_event: Callable[..., bytes], ticking: Any
) -> None:
    text = (shipped_folder() / "voevent-2.0.dtd").read_bytes()
    engine = ReferenceMatcher(KnownDtds(load_dtd("VOEvent", "2.0", text)), clock=ticking)
    documents = [
        make_event(extract_payload_element(p), type_name="VOEvent", version="2.0")
        for p in packets(shared_data)
    ]
    refused = [v for v in engine.match(documents) if not isinstance(v, Accepted)]
    assert refused == []


@pytest.mark.parametrize("query", ['//Param[@name="SC_Lat" and @value>600]'])
def test_real_filter_finds_its_value(
    make_event: Callable[..., bytes], ticking: Any, query: str
) -> None:
    engine = ReferenceMatcher(KnownDtds(), clock=ticking)
    number = engine.subscribe(StreamPattern.parse(">"), parse_query(query))
    variants = without_dtds([DtdReference("VOEvent", "2.0")])

    def matches(value: str) -> bool:
        payload = f"<VOEvent><What><Param name='SC_Lat' value='{value}'/></What></VOEvent>"
        document = make_event(payload.encode(), type_name="VOEvent", version="2.0")
        (verdict,) = engine.match([document], variants=variants)
        assert isinstance(verdict, Accepted)
        return verdict.subscriptions == (number,)

    assert matches("601")
    assert matches(" 1e3 ")
    assert not matches("600")
    assert not matches("+601")
    assert not matches("1_000")
    assert not matches("inf")
