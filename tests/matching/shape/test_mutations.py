"""Mutated accepted documents: those that the reference engine refuses are not recognised."""

from __future__ import annotations

import random
import tarfile
from pathlib import Path

import pytest

from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference
from broker.event.envelope import EventType
from broker.event.event_id import EventIdGenerator
from broker.event.writer import extract_payload_element, write_event
from broker.testing.events import ASDI, FLIGHT, air_traffic, flight_payloads
from tests.matching.shape.mutations import mutate
from tests.matching.shape.oracle import CheckedCache


def shipped(type_name: str, version: str) -> Dtd:
    catalogue, reference = Catalogue.load(shipped_folder()), DtdReference(type_name, version)
    text = catalogue.read(reference.public_id, reference.system_id)
    assert text is not None
    return Dtd.load(reference, text, catalogue.read)


def match_mutations(checked: CheckedCache, documents: list[bytes], count: int, seed: int) -> None:
    """Learn the documents, then compare mutations with the reference."""
    chance = random.Random(seed)
    for document in documents:
        checked.meet(document)
    learnt = checked.recognised
    assert learnt > len(documents) // 2
    accepted = checked.accepted
    for _ in range(count):
        checked.meet(mutate(chance, chance.choice(documents), documents))
    # Some mutations are valid documents of a known shape, most are not.
    assert learnt < checked.recognised
    assert checked.recognised - learnt <= checked.accepted - accepted < count


@pytest.mark.parametrize("seed", range(4))
def test_changed_flights(seed: int) -> None:
    mint = EventIdGenerator("pilot", 1699)
    documents = [
        write_event(mint.next_id(1_700_000_000_000 + n), "flights", FLIGHT, payload)
        for n, payload in enumerate(flight_payloads(30, seed))
    ]
    match_mutations(CheckedCache(shipped("flight", "1.1")), documents, 2_500, seed)


def test_changed_air_traffic() -> None:
    mint = EventIdGenerator("feed", 1)
    documents = [
        write_event(mint.next_id(1_700_000_000_000 + n), made.stream, ASDI, made.payload)
        for n, made in enumerate(air_traffic(300, seed=3))
    ]
    match_mutations(CheckedCache(shipped("asdi", "1.0")), documents, 2_000, 5)


def test_changed_voevents(shared_data: Path) -> None:
    documents, mint = [], EventIdGenerator("feed", 1)
    with tarfile.open(shared_data / "voevent" / "2020-06.002.tar.bz2") as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None:
                payload = extract_payload_element(file.read())
                kind = EventType("VOEvent", "2.0")
                documents.append(write_event(mint.next_id(1), "voevent", kind, payload))
    match_mutations(CheckedCache(shipped("VOEvent", "2.0")), documents, 1_500, 7)
