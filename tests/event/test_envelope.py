from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import BadEnvelope, BadName, NotWellFormed
from broker.event.envelope import (
    Bundle,
    Event,
    EventLinkage,
    EventType,
    Liveness,
    Order,
    SecurityLevel,
)
from broker.event.event_id import EventId
from broker.event.reader import read_event
from broker.event.writer import extract_payload_element, write_event

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn")), max_size=20)
LINKAGES = st.builds(
    EventLinkage,
    st.lists(st.builds(Bundle, TEXT, st.integers(0, 10**9)), max_size=2).map(tuple),
    st.none() | TEXT.filter(bool),
    st.none() | TEXT.filter(bool),
    st.lists(st.builds(Order, TEXT, st.booleans()), min_size=1, max_size=3).map(tuple),
)
TYPES = st.builds(
    EventType,
    st.just("flight"),
    st.just("1.0"),
    st.none() | st.just("1.1"),
    st.sampled_from(SecurityLevel),
    st.sampled_from(Liveness),
)


@given(TYPES, LINKAGES, st.lists(TEXT, max_size=2).map(tuple), st.none() | TEXT)
def test_a_written_event_reads_back_whole(
    kind: EventType, linkage: EventLinkage, applications: tuple[str, ...], summary: str | None
) -> None:
    event_id = EventId("feed", 1_760_000_000_000, 7, 3)
    payload = "<flight><id>Ä</id></flight>".encode()
    document = write_event(
        event_id,
        "asdi.zbw",
        kind,
        payload,
        linkage=linkage,
        application_types=applications,
        summary=summary,
    )
    expected = Event("asdi.zbw", event_id, kind, linkage, applications, summary, payload, document)
    assert read_event(document) == expected


def test_an_event_without_linkage_names_its_own_stream_as_order() -> None:
    document = write_event(EventId("a", 1, 1, 1), "s", EventType("event", "1.0"))
    event = read_event(document)
    assert event.linkage == EventLinkage(order=(Order("s"),))
    assert event.payload is None


def test_a_comment_before_the_payload_does_not_hide_it() -> None:
    document = write_event(EventId("a", 1, 1, 1), "s", EventType("flight", "1.0"), b"<flight/>")
    spaced = document.replace(b"<flight/>", b"\n<!-- <x> -->\n <flight/>\n")
    assert read_event(spaced).payload == b"<flight/>"


@pytest.mark.parametrize(
    ("document", "element"),
    [
        (b"<a/>", b"<a/>"),
        (b'<?xml version="1.0"?>\n<a/>\n', b"<a/>"),
        (b"\xef\xbb\xbf<?xml version='1.0' encoding='UTF-8'?><a/>", b"<a/>"),
        (b"  \n<a>b</a> ", b"<a>b</a>"),
    ],
)
def test_a_payload_loses_its_prolog_and_nothing_else(document: bytes, element: bytes) -> None:
    assert extract_payload_element(document) == element


@pytest.mark.parametrize(
    "document",
    [b"", b"text", b"<!DOCTYPE a><a/>", b"<?pi?>", b'<?xml version="1.0" encoding="UTF-16"?><a/>'],
)
def test_a_payload_is_a_single_element_in_utf8(document: bytes) -> None:
    with pytest.raises(BadEnvelope):
        extract_payload_element(document)


def test_a_stream_name_with_path_parts_is_refused_before_it_is_written() -> None:
    with pytest.raises(BadName):
        write_event(EventId("a", 1, 1, 1), "../etc/passwd", EventType("event", "1.0"))


@pytest.mark.parametrize("kind", [EventType('x" SYSTEM "', "1.0"), EventType("flight", "one")])
def test_a_type_that_would_break_the_doctype_is_refused(kind: EventType) -> None:
    with pytest.raises(BadEnvelope):
        write_event(EventId("a", 1, 1, 1), "s", kind)


def test_reading_another_document_is_a_typed_error() -> None:
    with pytest.raises(NotWellFormed) as broken:
        read_event(b"<a>\n<b></a>")
    assert broken.value.line == 2
    with pytest.raises(BadEnvelope, match="public identifier"):
        read_event(b"<a/>")


def test_security_levels_are_ordered() -> None:
    assert SecurityLevel.LOW < SecurityLevel.MED < SecurityLevel.HIGH
    assert max(SecurityLevel.MED, SecurityLevel.HIGH) is SecurityLevel.HIGH
