"""Ten thousand queries in one pass agree with plain lxml, query by query (A18).

The other side contains no code of the engines. lxml parses the payload with its DTD, and compiles
and evaluates each query as written.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from benchmarks.workloads.nitf import nitf_queries
from benchmarks.workloads.nitf_documents import nitf_document
from benchmarks.workloads.nitf_grammar import nitf_dtd, nitf_grammar
from broker.dtd.dtd import Dtd
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted
from broker.matching.query.query import parse_query
from broker.matching.switch import Switch
from tests.matching.conftest import KnownDtds, event, load_dtd
from tests.matching.engine.random_type import ROOT, RandomType

pytestmark = pytest.mark.slow

QUERIES = 10_000
DOCUMENTS = 12
ALL = StreamPattern.parse(">")
_HEAD = """
<!ENTITY % Mspaces.content ", n0">
<!ENTITY % Mspaces.envelope
         PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN" "mspaces-1.1.mod">
%Mspaces.envelope;
"""


class Naive:
    """Queries evaluated by lxml. `parse` returns a valid document with defaults."""

    def __init__(self, parse: Callable[[bytes], etree._Element], queries: list[str]) -> None:
        self._parse = parse
        self._queries = [etree.XPath(f"boolean({query})") for query in queries]

    def matching(self, payload: bytes) -> list[int]:
        """Return the indexes of the queries that the payload matches."""
        document = self._parse(payload).getroottree()
        return [place for place, query in enumerate(self._queries) if query(document)]


def parsing_with(declarations: str) -> Callable[[bytes], etree._Element]:
    """Return libxml2's validating parser with these declarations."""
    parser = etree.XMLParser(dtd_validation=True, attribute_defaults=True)
    doctype = f"<!DOCTYPE {ROOT} [{declarations}]>".encode()
    return lambda payload: etree.fromstring(doctype + payload, parser)


def parsing_news(file: Path) -> Callable[[bytes], etree._Element]:
    """Return a parser with a separate validator: libxml2 can not read this DTD in a DOCTYPE."""
    dtd: Any = etree.DTD(str(file))
    defaults = {
        declared.name: {
            each.name: each.default_value
            for each in declared.iterattributes()
            if each.default_value is not None
        }
        for declared in dtd.iterelements()
    }

    def parse(payload: bytes) -> etree._Element:
        document = etree.fromstring(payload)
        assert dtd.validate(document), dtd.error_log
        for element in document.iter():
            for name, value in defaults[element.tag].items():
                if element.get(name) is None:
                    element.set(name, value)
        return document

    return parse


class Engine:
    """The engine under test."""

    def __init__(self, dtd: Dtd, queries: list[str]) -> None:
        self.switch = Switch(KnownDtds(dtd), clock=lambda: 0.0)
        self._reference = dtd.reference
        self._places = {
            self.switch.subscribe(ALL, parse_query(query)): place
            for place, query in enumerate(queries)
        }

    def matching(self, payloads: list[bytes]) -> list[list[int]]:
        """Return for each payload the indexes of its matching queries, from one pass."""
        name, version = self._reference.type, self._reference.version
        events = [event(each, type_name=name, version=version) for each in payloads]
        found = []
        for verdict in self.switch.match(events):
            assert isinstance(verdict, Accepted), verdict
            found.append(sorted(self._places[number] for number in verdict.subscriptions))
        return found


def compared(naive: Naive, engine: Engine, payloads: list[bytes]) -> int:
    """Check that lxml and the engine agree; return the number of matches."""
    expected = [naive.matching(payload) for payload in payloads]
    assert engine.matching(payloads) == expected
    return sum(map(len, expected))


def test_on_documents_of_a_random_type() -> None:
    made = RandomType(0)
    queries = made.queries(QUERIES)
    naive = Naive(parsing_with(made.declarations()), queries)
    engine = Engine(load_dtd("made", "1.0", (_HEAD + made.declarations()).encode()), queries)
    payloads = [made.document().encode() for _ in range(DOCUMENTS)]
    assert compared(naive, engine, payloads) > 10 * DOCUMENTS
    # Documents with a shape are now recognised.
    for _ in range(3):
        compared(naive, engine, payloads[:2])
    assert engine.switch.statistics()["recognised"] == 4


def test_on_documents_of_the_news_industry(shared_data: Path) -> None:
    grammar, chance = nitf_grammar(), random.Random(1)
    queries = nitf_queries(grammar, QUERIES)
    reference, text = nitf_dtd()
    file = shared_data / "nitf-benchmark" / "nitf-3-0.dtd"
    naive = Naive(parsing_news(file), queries)
    engine = Engine(load_dtd(reference.type, reference.version, text), queries)
    payloads = [nitf_document(grammar, chance) for _ in range(DOCUMENTS)]
    assert compared(naive, engine, payloads) > 10 * DOCUMENTS
