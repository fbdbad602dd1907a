from __future__ import annotations

import pytest

from broker.event.envelope import EventType, Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.writer import write_event
from broker.log.logged_event import LoggedEvent, encode_header
from broker.streams.coalescing_key import MAX_KEY_DOCUMENT, make_key_reader
from broker.streams.queue_policy import DROP_NEWEST, parse_queue_policy


def event(payload: bytes | None, stream: str = "air.alps") -> LoggedEvent:
    event_id = EventId("c", 0, 1, 1)
    document = write_event(event_id, stream, EventType("E", "1.0"), payload)
    header = Header(event_id, stream, "E", "1.0", SecurityLevel.LOW, Liveness.LIVE)
    return LoggedEvent(1, 1, 0, 0, encode_header(header), document, "n", 1)


@pytest.mark.parametrize(
    ("path", "payload", "key"),
    [
        ("/flight/@id", b"<flight id='7'/>", "7"),
        (
            "/flight/leg/to",
            b"<flight><leg><to>ZRH</to></leg><leg><to>BSL</to></leg></flight>",
            "ZRH",
        ),
        ("/f:flight/@id", b"<x:flight xmlns:x='urn:f' id='8'/>", "8"),
        ("/*/@id", b"<boat id='9'/>", "9"),
        ("/flight/@id", b"<boat id='9'/>", None),
        ("/flight/@id", b"<flight id=''/>", None),
        ("/flight/@id", None, None),
        ("/StreamId", b"<flight id='7'/>", None),
    ],
)
def test_a_key_is_the_first_value_of_its_path_in_the_payload(
    path: str, payload: bytes | None, key: str | None
) -> None:
    read_key = make_key_reader(parse_queue_policy(f"coalesce:{path}", {"f": "urn:f"}))
    assert read_key(event(payload)) == key


def test_a_document_that_can_not_be_parsed_has_no_key() -> None:
    read_key = make_key_reader(parse_queue_policy("coalesce:/flight/@id"))
    assert read_key(LoggedEvent(1, 1, 0, 0, b"", b"<flight id='7'", "n", 1)) is None


def test_a_large_document_has_no_key() -> None:
    read_key = make_key_reader(parse_queue_policy("coalesce:/flight/@id"))
    small = event(b"<flight id='7'/>")
    room = MAX_KEY_DOCUMENT - len(small.document)
    largest = event(b"<flight id='7'" + b" " * room + b"/>")
    assert len(largest.document) == MAX_KEY_DOCUMENT
    assert read_key(largest) == "7"
    assert read_key(event(b"<flight id='7'" + b" " * (room + 1) + b"/>")) is None


def test_without_a_path_the_key_is_the_stream() -> None:
    read_key = make_key_reader(parse_queue_policy("coalesce"))
    assert read_key(event(None, "air.sea")) == "air.sea"


def test_another_policy_reads_no_key() -> None:
    assert make_key_reader(DROP_NEWEST)(event(b"<flight id='7'/>")) is None
