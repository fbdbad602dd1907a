"""A client reads the same payload and fields that the node validated and matched."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
from lxml import etree

from broker.dtd.catalogue import shipped_folder
from broker.dtd.dtd import Dtd
from broker.errors import BadEnvelope, InvalidEvent
from broker.event.envelope import NAMESPACE
from broker.event.reader import parse_document, read_event
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted
from broker.matching.document_limits import DocumentLimits
from broker.matching.examiner import Examiner
from broker.matching.name_watch import NameLimits, NameWatch
from broker.matching.prolog import PrologReader, check_prolog
from broker.matching.query.query import parse_query
from broker.matching.screening import find_undefined_entity
from broker.matching.switch import Switch
from broker.matching.whitespace import mark_mixed_runs
from broker.matching.xpath_evaluation import ParsedEvent
from tests.event.delimiters import KIND, event_with, single_fillings
from tests.matching import processor_time
from tests.matching.conftest import KnownDtds, event, load_dtd


@pytest.fixture(scope="module")
def dead_letters() -> KnownDtds:
    text = Path(shipped_folder(), "deadletter-1.0.dtd").read_bytes()
    return KnownDtds(load_dtd(KIND.name, KIND.version, text))


def test_client_reads_the_payload_that_was_matched(dead_letters: KnownDtds) -> None:
    examiner = Examiner(dead_letters, DocumentLimits(), None)
    for place, filling in single_fillings():
        document, _ = event_with({place: filling})
        subject = examiner.examine(document)
        assert isinstance(subject, ParsedEvent)
        read = read_event(document)
        assert read.payload is not None
        wrapper = b'<Mspaces:Event xmlns:Mspaces="%b">%b</Mspaces:Event>'
        delivered = copy.deepcopy(parse_document(wrapper % (NAMESPACE.encode(), read.payload))[0])
        matched = subject.document()
        assert etree.tostring(matched, method="c14n") == etree.tostring(delivered, method="c14n")
        assert (read.stream, read.event_id) == (subject.header.stream, subject.header.event_id)


def test_delimiters_do_not_mislead_queries(dead_letters: KnownDtds) -> None:
    engine = Switch(dead_letters, lambda: 0.0)
    streams = StreamPattern.parse("hostile")
    _, matching, _ = (
        engine.subscribe(streams, parse_query(query))
        for query in ("//forged", "/deadletter[@tries = 1]", "//reason[string-length() > 1000]")
    )
    documents = [event_with({place: filling})[0] for place, filling in single_fillings()]
    # In the second pass, documents without hiding markup are recognised by shape.
    for _ in range(2):
        for verdict in engine.match(documents):
            assert isinstance(verdict, Accepted)
            assert verdict.subscriptions == (matching,)


@pytest.mark.parametrize(
    "prolog",
    [
        b"<!--<!DOCTYPE Mspaces:Event PUBLIC '-//xmlbroker//DTD other 1.0//EN' 'x'>-->",
        b"<?x <!DOCTYPE Mspaces:Event PUBLIC '-//xmlbroker//DTD other 1.0//EN' 'x'>?>",
        b"<!--<Mspaces:Event>-->",
        b"<?xml-stylesheet encoding='UTF-16'?>",
        b"<!-- > --><?x -->?>\r\n<!--?> -->",
    ],
)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_parser_reads_the_same_prolog(prolog: bytes, mark: bytes) -> None:
    document = event(None)
    start = document.index(b"<!DOCTYPE")
    end = document.index(b"<Mspaces:Event")
    for place in (start, end):
        made = mark + document[:place] + prolog + document[place:]
        found = PrologReader().read(made)
        assert made.startswith(b"<Mspaces:Event", found.end)
        assert found.reference is not None and found.reference.type == "flight"
        check_prolog(found, parse_document(made))


def test_prolog_of_another_document_is_refused(flight_dtd: Dtd) -> None:
    read = PrologReader().read
    root = parse_document(event(None))
    for other in (
        event(None, version="2.0"),
        event(None, system_id="elsewhere"),
        b"<Mspaces:Event/>",
    ):
        with pytest.raises(BadEnvelope, match="prolog"):
            check_prolog(read(other), root)


def test_pointer_with_a_line_break_is_read_equally_or_refused(
    dtds: KnownDtds,
) -> None:
    examiner = Examiner(dtds, DocumentLimits(), None)
    for broken in (b"a\nb", b"a\tb", b"a b"):
        document = event(None, system_id="there").replace(b'"there"', b'"%b"' % broken)
        examiner.examine(document)
    with pytest.raises(InvalidEvent):
        examiner.examine(document.replace(b"a b", b"a\r\nb"))


#: Unclosed sections, and repeated names.
UNCLOSED: dict[str, Callable[[int], bytes]] = {
    "comments": lambda n: b"<!-- " * n,
    "sections": lambda n: b"<![CDATA[" * n,
    "instructions": lambda n: b"<?x " * n,
    "namespaces": lambda n: b"<a " + b"xmlns" * n,
    "quoted-namespaces": lambda n: b"<a " + b'"xmlns' * n,
    "blanks": lambda n: b"<a" + b" " * n,
    "runs": lambda n: b"> \n" * n,
    "ampersands": lambda n: b"&" * n,
}


@pytest.mark.parametrize("made", UNCLOSED.values(), ids=UNCLOSED)
def test_unclosed_sections_are_refused_in_linear_time(
    made: Callable[[int], bytes], dtds: KnownDtds
) -> None:
    # Quadratic time would be minutes.
    unclosed = b"<Mspaces:Event> \n\t<b/>" + made(200_000)
    document = event(None).replace(b"<Mspaces:Event", unclosed, 1)[: 1 << 20]
    with processor_time.at_most(2):
        with pytest.raises(InvalidEvent):
            Examiner(dtds, DocumentLimits(), NameWatch()).examine(document)
        with pytest.raises(InvalidEvent):
            guard = NameWatch(NameLimits(max_names=0))
            Examiner(dtds, DocumentLimits(), guard).examine(document)
        find_undefined_entity(document + b"&x;", 0)
        mark_mixed_runs(document, 0)
