from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable

import pytest

from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.received import Receipt
from broker.errors import (
    BadEnvelope,
    BadName,
    ForbiddenMarkup,
    ForbiddenPointer,
    ForgedIdentity,
    InvalidEvent,
    NotValid,
    NotWellFormed,
    PeerError,
    TooLarge,
    UnknownType,
)
from broker.event.envelope import EventType
from broker.event.event_id import EventId
from broker.event.writer import write_event
from broker.wire.event_batch import encode_batch
from broker.wire.messages import Published
from tests.system.conftest import DtdServer
from tests.system.node_process import NodeProcess
from tests.system.raw_session import RawSession
from tests.system.traffic import FLIGHT, Inbox, ask_status, checked_bystander, flight, run_within

pytestmark = pytest.mark.system

STREAM = "bad.events"
SECRET = "root:"
#: In documents of `write_event`.
DOCTYPE_END = b'">\n<Mspaces:Event'


def event(client: AsyncioClient, number: int, payload: bytes, kind: EventType = FLIGHT) -> bytes:
    """Write an event as the client library does."""
    event_id = EventId(client.client_id, 1_700_000_000_000, number, client.incarnation)
    return write_event(event_id, STREAM, kind, payload)


def with_subset(document: bytes, subset: bytes) -> bytes:
    assert DOCTYPE_END in document
    return document.replace(DOCTYPE_END, b'" [' + subset + b"]>\n<Mspaces:Event")


def with_nested_entities(document: bytes) -> bytes:
    levels = b"".join(
        b'<!ENTITY l%d "%s">' % (level, b"&l%d;" % (level - 1) * 10) for level in range(1, 10)
    )
    return with_subset(document, b'<!ENTITY l0 "ha">' + levels).replace(b"UAL1", b"&l9;")


def with_file(document: bytes) -> bytes:
    subset = b'<!ENTITY passwd SYSTEM "file:///etc/passwd">'
    return with_subset(document, subset).replace(b"UAL1", b"&passwd;")


def with_parameter_entity(document: bytes) -> bytes:
    return with_subset(document, b'<!ENTITY % all SYSTEM "file:///etc/passwd"> %all;')


def doctype_that_is_a_file(document: bytes) -> bytes:
    return re.sub(rb'PUBLIC "[^"]*" "[^"]*"', b'SYSTEM "file:///etc/passwd"', document)


def deep(document: bytes) -> bytes:
    return document.replace(b"UAL1", b"<a>" * 8_000 + b"</a>" * 8_000)


def replacing(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def change(document: bytes) -> bytes:
        assert old in document
        return document.replace(old, new, 1)

    return change


def recoded(encoding: str) -> Callable[[bytes], bytes]:
    def change(document: bytes) -> bytes:
        text = document.decode().replace('"UTF-8"', f'"{encoding}"').replace("UAL1", "UAL\u00e9")
        return text.encode(encoding)

    return change


BAD: dict[str, tuple[Callable[[bytes], bytes], type[InvalidEvent] | None]] = {
    "nothing-but-text": (lambda _: b"no XML at all", NotWellFormed),
    "cut-off": (lambda document: document[:-20], NotWellFormed),
    "tags-crossed": (replacing(b"</id><flightleg", b"<flightleg></id"), NotWellFormed),
    "two-roots": (lambda document: document + b"<more/>", NotWellFormed),
    "no-doctype": (lambda document: b"<Mspaces:" + document.partition(b"<Mspaces:")[2], None),
    "against-its-dtd": (replacing(b"<id>UAL1</id>", b"<no-id/>"), NotValid),
    "attribute-against-its-dtd": (replacing(b'status="active"', b'color="red"'), NotValid),
    "billion-laughs": (with_nested_entities, ForbiddenMarkup),
    "external-entity": (with_file, ForbiddenMarkup),
    "external-parameter-entity": (with_parameter_entity, ForbiddenMarkup),
    "external-doctype": (doctype_that_is_a_file, InvalidEvent),
    "entity-in-text": (replacing(b"UAL1", b"&passwd;"), InvalidEvent),
    "entity-in-attribute": (replacing(b'"active"', b'"&passwd;"'), InvalidEvent),
    "deep": (deep, TooLarge),
    "many-attributes": (
        replacing(b"<id>", b"<id " + b" ".join(b'a%d=""' % n for n in range(5000)) + b">"),
        TooLarge,
    ),
    "utf-16": (recoded("UTF-16"), NotWellFormed),
    "latin-1": (recoded("ISO-8859-1"), NotWellFormed),
    "latin-1-undeclared": (replacing(b"UAL1", b"UAL\xe9"), NotWellFormed),
    "overlong-utf-8": (replacing(b"UAL1", b"UAL\xc0\xaf"), NotWellFormed),
    "nul": (replacing(b"UAL1", b"UAL\0"), NotWellFormed),
    "control-character": (replacing(b"UAL1", b"UAL&#1;"), NotWellFormed),
    "forged-client": (
        lambda document: re.sub(rb"ClientId>[^<]+<", b"ClientId>somebody<", document),
        ForgedIdentity,
    ),
    "forged-incarnation": (
        lambda document: re.sub(rb"Incarnation>[^<]+<", b"Incarnation>7<", document),
        ForgedIdentity,
    ),
    "sequence-number-not-a-number": (
        lambda document: re.sub(rb"SequenceNumber>[^<]+<", b"SequenceNumber>one<", document),
        BadEnvelope,
    ),
    "sequence-number-huge": (
        lambda document: re.sub(
            rb"SequenceNumber>[^<]+<", b"SequenceNumber>" + b"9" * 400 + b"<", document
        ),
        BadEnvelope,
    ),
    "stream-with-path-parts": (replacing(b"bad.events<", b"../../etc/passwd<"), InvalidEvent),
    "stream-that-is-a-pattern": (replacing(b"bad.events<", b"bad.&gt;<"), InvalidEvent),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_event_is_refused_alone(name: str, shared_node: NodeProcess) -> None:
    change, refused = BAD[name]

    async def work() -> None:
        before = (await ask_status(shared_node.endpoint))["published"]
        async with (
            checked_bystander(shared_node.endpoint),
            connect(shared_node.endpoint) as client,
        ):
            inbox = Inbox(await client.subscribe("true()", STREAM))
            # In one batch.
            good = client.publish_document(event(client, 1, flight(1)), EventId("", 0, 0, 0))
            bad = client.publish_document(change(event(client, 2, flight(1))), EventId("", 0, 0, 0))
            good_too = client.publish_document(event(client, 3, flight(3)), EventId("", 0, 0, 0))
            results = await asyncio.gather(good, bad, good_too, return_exceptions=True)
            assert isinstance(results[0], Receipt)
            assert isinstance(results[1], refused or InvalidEvent), results[1]
            assert isinstance(results[2], Receipt)
            assert SECRET not in str(results[1])
            if isinstance(results[1], NotValid) or name in ("cut-off", "tags-crossed"):
                assert results[1].line > 0
            await inbox.wait_until(lambda: len(inbox.events) == 2)
            assert [one.event_id.sequence_number for one in inbox.events] == [1, 3]
            await inbox.close()
        after = (await ask_status(shared_node.endpoint))["published"]
        code = results[1].code
        assert after["refused"][code] == before["refused"].get(code, 0) + 1
        outcomes = [after[key] for key in ("accepted", "duplicate", "not_taken")]
        assert after["received"] == sum(outcomes) + sum(after["refused"].values())

    run_within(work())
    notes = sorted(
        (shared_node.data / "quarantine").glob("*.json"), key=lambda path: int(path.stem)
    )
    assert json.loads(notes[-1].read_text())["code"]


def test_client_library_rejects_invalid_arguments(shared_node: NodeProcess) -> None:
    async def work() -> None:
        async with connect(shared_node.endpoint) as client:
            await client.when_connected(10)
            assert client.welcome is not None
            with pytest.raises(TooLarge):
                client.publish(STREAM, flight(1, filling="x" * (100 << 20)), FLIGHT)
            for stream in ("../etc", "a/b", "", "a..b", ".a", "a.*", "a\0b", "x" * 5000):
                with pytest.raises(BadName):
                    client.publish(stream, flight(1), FLIGHT)
            with pytest.raises(BadEnvelope):
                client.publish(STREAM, flight(1), EventType("../flight", "1.0"))
            receipt = await client.publish(STREAM, flight(1), FLIGHT)
            assert receipt.event_id.sequence_number == 1

    run_within(work())


def test_node_refuses_a_too_large_event_of_a_raw_client(
    shared_node: NodeProcess,
) -> None:
    async def work() -> None:
        async with checked_bystander(shared_node.endpoint):
            session = await RawSession.open(shared_node.port, "large")
            await session.send(encode_batch(1, [b"<x>" + b" " * (3 << 20) + b"</x>"]))
            answer = await session.receive()
            assert isinstance(answer, Published)
            ((index, error),) = answer.refused
            assert (index, error[0]) == (0, TooLarge.code)
            session.close()

    run_within(work())


# --------------------------------------------------------------------------- pointers

DTD = b"""<?xml version="1.0" encoding="UTF-8"?>
<!ENTITY % Mspaces.content ", made">
<!ENTITY % Mspaces.envelope
         PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.0//EN" "mspaces-1.0.mod">
%Mspaces.envelope;
<!ELEMENT made (#PCDATA)>
"""


def test_unknown_type_is_refused(shared_node: NodeProcess) -> None:
    async def work() -> None:
        async with checked_bystander(shared_node.endpoint), connect(shared_node.endpoint) as client:
            with pytest.raises(UnknownType, match="unheard-of"):
                await client.publish(STREAM, b"<x/>", EventType("unheard-of", "1.0"))

    run_within(work())


@pytest.mark.parametrize(
    "pointer",
    [
        "http://127.0.0.1:{port}/secret/made.dtd",
        "http://127.0.0.1:{port}/allowed/../secret/made.dtd",
        "http://127.0.0.1:{port}/allowed/%2e%2e/secret/made.dtd",
        "http://localhost:{port}/allowed/made.dtd",
        "http://user@127.0.0.1:{port}/allowed/made.dtd",
        "http://127.0.0.1:{port}/allowed/made.dtd?x",
        "https://127.0.0.1:{port}/allowed/made.dtd",
        "file:///etc/passwd",
        "ftp://127.0.0.1:{port}/allowed/made.dtd",
    ],
)
def test_pointer_to_a_forbidden_place_is_not_followed(
    pointer: str, shared_node: NodeProcess, dtd_server: DtdServer
) -> None:
    before = dtd_server.requests.total()

    async def work() -> None:
        async with checked_bystander(shared_node.endpoint), connect(shared_node.endpoint) as client:
            with pytest.raises(ForbiddenPointer):
                await client.publish(
                    STREAM,
                    b"<made>1</made>",
                    EventType("made", "6.6"),
                    system_id=pointer.format(port=dtd_server.port),
                )

    run_within(work())
    assert dtd_server.requests.total() == before


def test_pointer_to_an_allowed_place_is_followed_once(
    shared_node: NodeProcess, dtd_server: DtdServer
) -> None:
    dtd_server.pages["/allowed/made-1.0.dtd"] = DTD
    pointer = f"http://127.0.0.1:{dtd_server.port}/allowed/made-1.0.dtd"

    async def work() -> None:
        async with (
            checked_bystander(shared_node.endpoint),
            connect(shared_node.endpoint) as one,
            connect(shared_node.endpoint) as two,
        ):
            inbox = Inbox(await one.subscribe("/made > 10", "pointed"))
            receipts = await asyncio.gather(
                *(
                    client.publish(
                        "pointed",
                        b"<made>%d</made>" % number,
                        EventType("made", "1.0"),
                        system_id=pointer,
                    )
                    for client in (one, two)
                    for number in range(25)
                )
            )
            assert len({receipt.place for receipt in receipts}) == 50
            await inbox.wait_until(lambda: len(inbox.events) == 28)
            for client in (one, two):
                numbers = [
                    event.event_id.sequence_number
                    for event in inbox.events
                    if event.event_id.client_id == client.client_id
                ]
                assert numbers == list(range(12, 26))
            await inbox.close()

    run_within(work())
    assert dtd_server.requests["/allowed/made-1.0.dtd"] == 1


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("absent-1.0.dtd", None),
        ("broken-1.0.dtd", b"<!ELEMENT"),
        ("greedy-1.0.dtd", b'<!ENTITY % all SYSTEM "file:///etc/passwd"> %all;'),
        ("large-1.0.dtd", b"<!-- " + b"x" * (1 << 20) + b" -->"),
        ("laughing-1.0.dtd", b'<!ENTITY % a "%a;%a;"> %a;'),
    ],
)
def test_pointer_to_no_dtd_refuses_the_event(
    path: str, page: bytes | None, shared_node: NodeProcess, dtd_server: DtdServer
) -> None:
    if page is not None:
        dtd_server.pages[f"/allowed/{path}"] = page
    pointer = f"http://127.0.0.1:{dtd_server.port}/allowed/{path}"
    name = path.partition("-")[0]

    async def work() -> None:
        async with checked_bystander(shared_node.endpoint), connect(shared_node.endpoint) as client:
            for _ in range(3):
                with pytest.raises(PeerError) as refused:
                    await client.publish(
                        STREAM, b"<made>1</made>", EventType(name, "1.0"), system_id=pointer
                    )
                assert refused.value.code in ("unknown-type", "bad-dtd"), refused.value
                assert SECRET not in str(refused.value)

    run_within(work())
    assert dtd_server.requests[f"/allowed/{path}"] == 1
