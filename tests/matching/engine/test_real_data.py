"""Real documents with realistic queries: the engine agrees with the reference."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest
from lxml import etree

from benchmarks.workloads.nitf_documents import nitf_document
from benchmarks.workloads.nitf_grammar import nitf_dtd, nitf_grammar
from broker.dtd.dtd import Dtd
from broker.event.envelope import EventType, Liveness
from broker.event.event_id import EventIdGenerator
from broker.event.writer import extract_payload_element, write_event
from broker.matching.document_limits import DocumentLimits
from tests.matching.conftest import load_dtd
from tests.matching.engine.engine_pair import EnginePair
from tests.matching.engine.workload import Workload, varied
from tests.matching.shape.test_real_data import (
    _ENVELOPE,
    SWIM,
    events,
    packets,
    permissive,
    shipped,
)
from tests.matching.test_voevent_filters import filters

VOEVENT = {"v": "http://www.ivoa.net/xml/VOEvent/v2.0"}
#: Filters by publisher, kind of packet, position or flux, and expensive queries.
ASKED = [
    "//Who/AuthorIVORN = 'ivo://nasa.gsfc.tan/gcn'",
    "starts-with(/v:VOEvent/@ivorn, 'ivo://nasa.gsfc.gcn/SWIFT')",
    "contains(/*/@ivorn, 'BAT') and /*/@role = 'observation'",
    "/*[@role='observation' and not(contains(@ivorn, 'Test'))]",
    "//Param[@name='Packet_Type' and @value=61]",
    "//Param[@name='Packet_Type']/@value > 100",
    "//Param[@name='Sun_Distance' and @value > 90]/../Param[@name='Moon_Distance']/@value > 30",
    "//Position2D/Value2[C1 > 100 and C1 < 200 and C2 > -30 and C2 < 30]",
    "//Position2D[@unit='deg-deg']/Error2Radius < 0.1",
    "//Group[@name='Solution_Status']/Param[@value='true']",
    "count(//Param[@value = 'true']) > 3",
    "sum(//Value2/*) > 200",
    "//Param[last()]/@value = //Param[1]/@value",
    "string(//Param[@value > 1000][2]/@name) != 'TrigID'",
    "normalize-space(//Concept) = 'process.variation.burst;em.gamma'",
    "$TimeStamp mod 2 = 0 and /v:VOEvent",
    "number(substring-after(/*/@ivorn, '#')) > 1",
    "//ISOTime > '2014'",
    "//Reference/@uri",
    "translate(//Name, 'abcdefgh', 'ABCDEFGH') = 'GCN_VOEVENT'",
]


def test_a_stretch_of_voevents_in_order_of_arrival(shared_data: Path) -> None:
    engines = EnginePair(shipped("VOEvent", "1.1"), shipped("VOEvent", "2.0"))
    archive = "2014-04.001.tar.bz2"
    sample = [
        extract_payload_element(p) for p in islice(packets(shared_data, archive), 0, 3_000, 100)
    ]
    work = Workload(sample, seed=1)
    queries = [*work.queries(250), *ASKED, *filters(shared_data)]
    numbers = [
        engines.subscribe(query, namespaces={**work.namespaces, **VOEVENT}) for query in queries
    ]
    arriving = events(islice(packets(shared_data, archive), 0, 1_500))
    while batch := list(islice(arriving, 20)):
        engines.match(batch)
        last = batch
    assert engines.count("recognised") > 1_000
    assert engines.matched > 10_000
    for number in numbers[::5]:
        engines.select(number, last, Liveness.RECOVERY)


def meet(
    dtd: Dtd,
    payloads: list[bytes],
    queries: int,
    *,
    values: Sequence[int],
    more: Sequence[str] = (),
) -> EnginePair:
    """Match recurring payloads while queries change; `values` are the seeds of their numbers."""
    limits = DocumentLimits(max_bytes=4 * 1024 * 1024, max_markup=1_000_000)
    engines = EnginePair(dtd, document_limits=limits)
    work = Workload(payloads, seed=2)
    mint = EventIdGenerator("feed", 1)
    kind = EventType(dtd.reference.type, dtd.reference.version)
    asked = work.queries(queries)
    for query in more:
        engines.subscribe(query)
    numbers: list[int] = []
    for copy, value in enumerate(values):
        numbers += [
            engines.subscribe(query, namespaces=work.namespaces)
            for query in asked[copy :: len(values)]
        ]
        documents = [
            write_event(mint.next_id(1), "s", kind, varied(payload, random.Random(value)))
            for payload in payloads
        ]
        for document in documents:
            engines.match([document])
        for number in numbers[::40]:
            engines.select(number, documents[-3:], Liveness.LIVE)
        for number in numbers[::7]:
            engines.unsubscribe(number)
            numbers.remove(number)
    return engines


def test_news_with_the_published_workload(shared_data: Path) -> None:
    """No two documents have one shape until they recur."""
    reference, text = nitf_dtd()
    dtd = load_dtd(reference.type, reference.version, text)
    grammar = nitf_grammar()
    payloads = [nitf_document(grammar, random.Random(f"switch {n}")) for n in range(25)]
    engines = meet(dtd, payloads, 400, values=(1, 1, 1, 2, 2, 2))
    assert engines.count("recognised") > 20
    assert engines.count("parsed") > 60
    assert engines.matched > 1_000


@pytest.mark.parametrize("name", sorted(SWIM))
def test_deep_documents_of_air_traffic(shared_data: Path, name: str) -> None:
    payload = extract_payload_element((shared_data / "faa-swim-race" / name).read_bytes())
    dtd = load_dtd("swim", "1.0", permissive(etree.fromstring(payload)))
    engines = meet(dtd, [payload], 120, values=range(12), more=["//*[@*]", "count(//*) > 10"])
    # The first documents compile parts of the expression.
    assert (engines.count("recognised") > 3) == SWIM[name]
    assert engines.matched > 50


#: The XPath parts of the benchmark's 20 queries.
XMARK = [
    "/site/people/person[@id='person0']/name/text()",
    "/site/open_auctions/open_auction/bidder[1]/increase/text()",
    "/site/open_auctions/open_auction[bidder[1]/increase * 2 <= bidder[last()]/increase]",
    "//open_auction[bidder/personref/@person='person18829']/reserve",
    "count(/site/closed_auctions/closed_auction[price >= 40]) > 3",
    "count(/site/regions//item) > 200",
    "count(//description) + count(//annotation) + count(//emailaddress) > 10",
    "//closed_auction[buyer/@person = /site/people/person/@id]",
    "//person[profile/@income > 5000 * //open_auction[1]/initial]",
    "/site/regions/australia/item[contains(description, 'gold')]",
    "/site/closed_auctions/closed_auction/annotation/description/parlist/listitem/parlist",
    "//person[not(homepage/text())]/name",
    "sum(//price) div count(//price) > 50",
    "//person[profile/@income >= 100000]",
    "//person[not(profile/@income)]",
]
PART_OF_XMARK = [
    "bidder[1]/increase * 2 <= bidder[last()]/increase",
    "/open_auction[bidder[increase > 3][2]]/reserve",
    "/person[profile/@income >= 50000][address/country = 'United States']",
    "contains(/item/description, 'gold') or /item/location = 'United States'",
    "count(//keyword) > 2 and not(//emph)",
    "//interval[translate(start, '/', '') != end]",
    "/person[count(watches/watch) > 3]",
    "sum(//increase) > 20",
]


def test_auctions_whole_and_in_parts(shared_data: Path) -> None:
    folder = shared_data / "xmark-nux"
    roots = "site | item | person | open_auction | closed_auction"
    declarations = (folder / "auction.dtd").read_bytes()
    # Parts refer to each other, but are separate events here.
    declarations = declarations.replace(b"IDREF", b"CDATA")
    dtd = load_dtd("auction", "1.0", _ENVELOPE.format(root=roots).encode() + declarations)
    document = (folder / "auction-0.01.xml").read_bytes()
    root = etree.fromstring(document)
    parts = []
    for element in islice(root.iter("item", "person", "open_auction", "closed_auction"), 0, 600, 8):
        element.tail = None
        parts.append(etree.tostring(element))
    engines = meet(dtd, parts, 200, values=(1, 1, 1, 2), more=PART_OF_XMARK)
    assert engines.count("recognised") > 50
    assert engines.matched > 1_000
    whole = meet(dtd, [etree.tostring(etree.fromstring(document))], 30, values=(1,), more=XMARK)
    assert whole.count("parsed") == 1
    assert whole.matched > 10
