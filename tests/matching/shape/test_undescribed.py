"""Shapes of types without a DTD keep the rules of described types."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference
from broker.event.envelope import EventType, Validation
from broker.event.event_id import EventIdGenerator
from broker.event.stream import StreamPattern
from broker.event.writer import write_event
from broker.matching.contract import Accepted, TypeMissing
from broker.matching.query.query import parse_query
from broker.matching.shape.bounds import ShapeBounds
from broker.matching.switch import Switch
from broker.matching.undescribed import (
    EVERY_TYPE_UNDESCRIBED,
    UndescribedType,
    undescribed,
    without_dtds,
)
from tests.matching.conftest import KnownDtds, event
from tests.matching.shape.grammar import Grammar
from tests.matching.shape.mutations import mutate
from tests.matching.shape.oracle import CheckedCache
from tests.matching.shape.test_mutations import match_mutations

SEEDS = st.integers(0, 2**32)
BOUNDS = ShapeBounds(max_variants=3)


def make_cache(name: str, version: str = "1.0", bounds: ShapeBounds = BOUNDS) -> CheckedCache:
    reference = DtdReference(name, version)
    dtd = UndescribedType(undescribed(reference))
    return CheckedCache(dtd, bounds=bounds, variants=without_dtds([reference]))


@settings(max_examples=60)
@given(SEEDS, SEEDS)
def test_random_documents_and_changed_ones(grammar_seed: int, seed: int) -> None:
    grammar, chance = Grammar(grammar_seed), random.Random(seed)
    checked = make_cache("made")
    structures = [chance.randrange(2**32) for _ in range(2)]
    documents = [
        grammar.document(chance.choice(structures), chance.randrange(2**32), raw=n % 4 == 0)
        for n in range(16)
    ]
    for document in documents:
        checked.meet(document)
    for document in documents:
        for _ in range(4):
            checked.meet(mutate(chance, document, documents))


def test_most_generated_documents_are_recognised() -> None:
    recognised = accepted = 0
    for seed in range(20):
        grammar, chance = Grammar(seed), random.Random(seed)
        checked = make_cache("made")
        structures = [chance.randrange(2**32) for _ in range(2)]
        for _ in range(60):
            checked.meet(grammar.document(chance.choice(structures), chance.randrange(2**32)))
        recognised += checked.recognised
        accepted += checked.accepted
    assert accepted > 700
    assert recognised > 0.6 * accepted


@pytest.mark.parametrize("folder", ["cap-google", "iwxxm-fmi", "faa-swim-race"])
def test_changed_real_documents(shared_data: Path, folder: str) -> None:
    mint, documents, chance = EventIdGenerator("feed", 1), list[bytes](), random.Random(1)
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True)
    for file in sorted((shared_data / folder).rglob("*.*")):
        try:
            root = etree.parse(file, parser).getroot()
        except etree.XMLSyntaxError:
            continue
        if root.getroottree().docinfo.internalDTD is None and len(etree.tostring(root)) < 30_000:
            for _ in range(6):
                for element in root.iter("*"):
                    if not len(element) and (element.text or "").isdigit():
                        element.text = str(chance.randrange(1_000))
                payload = etree.tostring(root, encoding="unicode", with_tail=False).encode()
                kind = EventType("feed", "1.0")
                documents.append(write_event(mint.next_id(1), "feed", kind, payload))
    match_mutations(
        make_cache("feed", bounds=ShapeBounds(max_slots_compiled=2048)), documents, 1_000, 7
    )


ALL = StreamPattern.parse(">")
NAMES = DtdReference("odd", "1.0")


def odd(number: int) -> bytes:
    return event(b"<odd a='1'><n>%d</n></odd>".replace(b"'", b'"') % number, type_name="odd")


def test_a_shape_holds_for_events_that_are_undescribed_too() -> None:
    engine = Switch(KnownDtds(), clock=lambda: 0.0)
    variants = without_dtds([NAMES])
    number = engine.subscribe(ALL, parse_query("//n > 5 and $Validation = 'undescribed'"))
    for value in range(10):
        (verdict,) = engine.match([odd(value)], variants=variants)
        assert isinstance(verdict, Accepted)
        assert verdict.subscriptions == ((number,) if value > 5 else ())
        assert verdict.header.validation is Validation.UNDESCRIBED
    assert engine.statistics()["recognised"] == 8
    # The shape says nothing about an event whose type must be described.
    assert isinstance(engine.match([odd(11)])[0], TypeMissing)
    assert isinstance(engine.match([odd(12), odd(13)])[0], TypeMissing)
    engine.match([odd(14)], variants=EVERY_TYPE_UNDESCRIBED)
    assert engine.statistics()["recognised"] == 9


def test_described_and_undescribed_events_of_a_type_keep_their_shapes(flight_dtd: Dtd) -> None:
    engine = Switch(KnownDtds(flight_dtd), clock=lambda: 0.0)
    scheduled = engine.subscribe(ALL, parse_query("/flight/@kind = 'scheduled'"))
    document = b"<flight><id>%d</id></flight>"
    for number in range(8):
        (described,) = engine.match([event(document % number)])
        (plain,) = engine.match([event(document % number)], variants=EVERY_TYPE_UNDESCRIBED)
        assert isinstance(described, Accepted) and isinstance(plain, Accepted)
        # The DTD supplies the attribute.
        assert (described.subscriptions, plain.subscriptions) == ((scheduled,), ())


def test_a_marked_event_is_never_recognised(flight_dtd: Dtd) -> None:
    engine = Switch(KnownDtds(flight_dtd), clock=lambda: 0.0)
    marked = engine.subscribe(ALL, parse_query("$Validation = 'marked'"))
    bad, good = event(b"<flight><idd>1</idd></flight>"), event(b"<flight><id>1</id></flight>")
    for _ in range(3):
        engine.match([good])
        for document in (bad, good):
            (verdict,) = engine.match([document], marked=True)
            assert isinstance(verdict, Accepted)
            assert verdict.subscriptions == (marked,)
    assert len(engine.type_counters()) == 1
