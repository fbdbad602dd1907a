"""Mutated accepted documents: the engine's verdict equals the reference's.

Error, line, column, header and subscriptions are compared.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.dtd.dtd import Dtd
from broker.event.event_id import EventIdGenerator
from broker.event.writer import write_event
from broker.testing.events import ASDI, FLIGHT, air_traffic, flight_payloads
from tests.matching.engine.engine_pair import EnginePair
from tests.matching.engine.test_generated import Run
from tests.matching.shape.mutations import mutate
from tests.matching.shape.test_real_data import events, packets, shipped

SEEDS = st.integers(0, 2**32)
#: Queries on everything that a mutation may change: envelope fields, values, structure.
EVERYWHERE = [
    *("$TimeStamp > 5", "$StreamId = 'flights'", "$Liveness = 'live'", "$SequenceNumber mod 2 = 1"),
    *(
        "contains(/, '0')",
        "//*[@*]",
        "count(//*) > 20",
        "//text()[contains(., 'A')]",
        "not(//*[3])",
    ),
    *("/Mspaces:Event/Mspaces:Summary", "string-length(/*) > 40", "//@*[. = 'x']", "//*[. = 'x']"),
    *("//*[not(*) and number() > 100]", "//*[*][2]", "sum(//*[not(*)]) > 1", "/*/*[1] = /*/*[2]"),
]


def match_mutations(engines: EnginePair, documents: list[bytes], count: int, seed: int) -> None:
    """Learn the documents, then match mutations one by one and in batches."""
    chance = random.Random(seed)
    for document in documents:
        engines.match([document])
    learnt = engines.count("recognised")
    assert learnt > len(documents) // 3
    left = count
    while left > 0:
        batch = [
            mutate(chance, chance.choice(documents), documents)
            for _ in range(chance.choice([1, 1, 3, 20]))
        ]
        left -= len(batch)
        engines.match(batch)
    assert engines.count("recognised") > learnt
    assert engines.matched > 0


def subscribe(engines: EnginePair, more: list[str]) -> None:
    for query in [*EVERYWHERE, *more]:
        engines.subscribe(query, namespaces={"v": "http://www.ivoa.net/xml/VOEvent/v2.0"})


@pytest.mark.parametrize("seed", range(2))
def test_changed_flights(seed: int) -> None:
    engines = EnginePair(shipped("flight", "1.1"))
    subscribe(engines, ["//altitude > 300", "//flightleg[speed < 500]", "starts-with(//id, 'U')"])
    mint = EventIdGenerator("pilot", 1699)
    documents = [
        write_event(mint.next_id(1_700_000_000_000 + n), "flights", FLIGHT, payload)
        for n, payload in enumerate(flight_payloads(40, seed))
    ]
    match_mutations(engines, documents, 1_500, seed)


def test_changed_air_traffic() -> None:
    engines = EnginePair(shipped("asdi", "1.0"))
    subscribe(engines, ["//*[local-name() = 'trackInformation']", "//@*[. > 300]"])
    mint = EventIdGenerator("feed", 1)
    documents = [
        write_event(mint.next_id(1_700_000_000_000 + n), made.stream, ASDI, made.payload)
        for n, made in enumerate(air_traffic(200, seed=3))
    ]
    match_mutations(engines, documents, 1_000, 5)


def test_changed_voevents(shared_data: Path) -> None:
    engines = EnginePair(shipped("VOEvent", "1.1"), shipped("VOEvent", "2.0"))
    subscribe(engines, ["//Param[@name='Packet_Type']/@value > 60", "/v:VOEvent/@role = 'test'"])
    documents = list(events(islice(packets(shared_data, "2020-06.002.tar.bz2"), 0, 150)))
    match_mutations(engines, documents, 800, 7)


@settings(max_examples=15)
@given(SEEDS, SEEDS)
def test_changed_documents_of_any_type(grammar_seed: int, seed: int) -> None:
    run = Run(grammar_seed, seed)
    run.subscribe(10, 2)
    documents = run.documents(40)
    for document in documents:
        run.engines.match([document])
    for _ in range(15):
        run.engines.match([mutate(run.chance, run.chance.choice(documents), documents)] * 2)


#: Markup and similar text for a slot, and text like the end of a slot.
INTRUSIONS = [
    *(b"<altitude>1</altitude>", b"</altitude><altitude>1", b"</altitude></leg><leg><altitude>1"),
    *(
        b"1<!-- 2 -->",
        b"<![CDATA[1]]>",
        b"<![CDATA[</altitude>]]>",
        b"&amp;",
        b"&#49;",
        b"&x;",
        b"<",
    ),
    *(
        b">",
        b"]]>",
        b"]]",
        b'"',
        b"'",
        b"<?a b?>",
        b"\x00",
        b"\x1f",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\r",
    ),
    *(
        b"\n",
        b"\t",
        b"\xef\xbf\xbf",
        b"\xc2\x85",
        b"",
        b" ",
        b"</altitude>",
        b"<altitude>",
        b"%s",
        b"\\1",
    ),
    *(b"1" * 5_000, b"\xf0\x9f\x9a\x80", b"x" * 1_100_000),
]


@pytest.mark.parametrize("intrusion", INTRUSIONS, ids=lambda each: repr(each[:24]))
@pytest.mark.parametrize(
    "place",
    [
        lambda document, new: document.replace(b">290<", b">" + new + b"<"),
        lambda document, new: document.replace(b"290", b"2" + new + b"0"),
        lambda document, new: document.replace(b'"active"', b'"' + new + b'"'),
        lambda document, new: document.replace(b"asdi.zbw<", b"asdi.zbw" + new + b"<", 1),
        lambda document, new: document.replace(b"</altitude>", b"</altitude>" + new),
        lambda document, new: document.replace(b"<leg ", new + b"<leg "),
    ],
)
def test_markup_in_a_value_is_not_accepted_as_a_value(
    flight_dtd: Dtd,
    make_event: Callable[..., bytes],
    place: Callable[[bytes, bytes], bytes],
    intrusion: bytes,
) -> None:
    engines = EnginePair(flight_dtd)
    subscribe(engines, ["//altitude = 290", "//leg/@status = 'active'", "//leg[2]"])
    document = make_event()
    engines.match([document] * 2)
    engines.match([document])
    assert engines.count("recognised") == 1
    engines.match([place(document, intrusion)] * 2)
    engines.match([document, place(document, intrusion)])
