"""Sessions, logins, requests and queues of clients at and past their bounds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from msgspec.structs import replace

from broker.client.asyncio_face import connect
from broker.errors import (
    BadQuery,
    FrameTooLarge,
    Overloaded,
    ProtocolError,
    TooLarge,
    TooManySessions,
    TooManySubscriptions,
)
from broker.event.event_id import EventId
from broker.event.writer import write_event
from broker.matching.query.query import MAX_NAMESPACES
from broker.scram import ClientExchange
from broker.scram.mechanism import SCRAM, format_credential
from broker.sessions.handshakes import MAX_HANDSHAKE_BYTES
from broker.wire import messages
from broker.wire.event_batch import encode_batch
from broker.wire.messages import INITIAL_CREDIT, Credit, Gap, Published
from tests.security.account_settings import (
    ADMINISTRATOR,
    BASE,
    BYSTANDER,
    SECRET,
    account_toml,
    identity_of,
)
from tests.security.attacker import Connection, open_many
from tests.security.bystander import measured_bystander
from tests.system.node_process import NodeProcess
from tests.system.raw_session import RawSession, frame, hello
from tests.system.traffic import FLIGHT, ask_status, flight, run_within

pytestmark = pytest.mark.system

SESSIONS, OF_ACCOUNT, SUBSCRIPTIONS, QUEUED = 7, 3, 5, 20
CLIENTS = 10
FLOOD = 200
MAX_EVENT, MAX_FRAME, LARGE = 2 << 20, 4 << 20, 1 << 20
CONFIGURATION = (
    BASE
    + account_toml("many", subscribe=["many"])
    + account_toml("more", publish=["many"], subscribe=["many"])
    + f"""
[log]
sync = false
[limits]
max_sessions = {SESSIONS}
max_sessions_per_account = {OF_ACCOUNT}
max_clients = {CLIENTS}
max_subscriptions_per_client = {SUBSCRIPTIONS}
session_lease = 0
max_event_bytes = "2MiB"
max_frame_bytes = "4MiB"
[queue]
events = {QUEUED}
"""
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    folder = tmp_path_factory.mktemp("bounded")
    with NodeProcess(folder, CONFIGURATION) as one:
        yield one
        assert "Traceback" not in one.log()


async def log_in(stack: AsyncExitStack, node: NodeProcess, account: str, number: int) -> None:
    session = await RawSession.open(node.port, f"{account}-{number}", SECRET, account)
    stack.callback(session.close)


async def limits_of(node: NodeProcess) -> dict[str, dict[str, Any]]:
    status = await ask_status(node.endpoint, **ADMINISTRATOR)
    return {each["name"]: each for each in status["limits"]}


@pytest.mark.limit("ClientIds with a stored incarnation", "node")
def test_of_many_client_ids_the_oldest_are_forgotten(node: NodeProcess) -> None:
    async def work() -> None:
        async with measured_bystander(node.endpoint, **BYSTANDER) as bystander:
            for number in range(3 * CLIENTS):
                (await RawSession.open(node.port, f"more-new-{number}", SECRET, "more")).close()
            await bystander.measure()
        limit = (await limits_of(node))["client-incarnations"]
        assert limit["used"] <= limit["bound"] == CLIENTS
        assert limit["reached"] >= 2 * CLIENTS

    run_within(work())


@pytest.mark.limit("sessions", "node")
@pytest.mark.limit("sessions", "account")
def test_sessions_are_bounded_for_an_account_and_in_all(node: NodeProcess) -> None:
    async def work() -> None:
        async with AsyncExitStack() as stack:
            bystander = await stack.enter_async_context(
                measured_bystander(node.endpoint, **BYSTANDER)
            )
            for number in range(OF_ACCOUNT):
                await log_in(stack, node, "many", number)
            with pytest.raises(TooManySessions, match="account many"):
                await log_in(stack, node, "many", OF_ACCOUNT)
            await log_in(stack, node, "more", 0)
            limits = await limits_of(node)
            # The question has a session, too.
            assert limits["sessions"]["used"] == OF_ACCOUNT + 3
            assert limits["account-sessions"]["used"] == OF_ACCOUNT
            for number in (1, 2):
                await log_in(stack, node, "more", number)
            with pytest.raises(TooManySessions, match="the node"):
                await RawSession.open(node.port, "admin", SECRET)
            await bystander.measure()

    run_within(work())


async def count_refused(node: NodeProcess, code: str) -> int:
    status = await ask_status(node.endpoint, **ADMINISTRATOR)
    count: int = status["refused_connections"].get(code, 0)
    return count


def sized_hello(size: int) -> bytes:
    message = replace(hello("x"), account="x", credential="c" * 256)
    rest = size - len(messages.encode(message))
    packet = messages.encode(replace(message, credential="c" * (256 + rest)))
    assert len(packet) == size
    return packet


@pytest.mark.limit("bytes of a handshake", "connection")
def test_a_handshake_has_few_bytes(node: NodeProcess) -> None:
    async def work() -> None:
        async with measured_bystander(node.endpoint, **BYSTANDER) as bystander:
            for size in (MAX_HANDSHAKE_BYTES, MAX_HANDSHAKE_BYTES + 1):
                before = await count_refused(node, FrameTooLarge.code)
                connection = await Connection.open(node.port, frame(sized_hello(size)))
                await connection.read_to_end()
                refused = await count_refused(node, FrameTooLarge.code) - before
                assert refused == (size > MAX_HANDSHAKE_BYTES)
            await bystander.measure()

    run_within(work())


def unfinished_login(account: str, number: int = 0) -> bytes:
    credential = format_credential(SCRAM, ClientExchange(account).first)
    message = replace(hello(f"{account}-{number}"), account=account, credential=credential)
    return messages.encode(message)


@pytest.mark.limit("logins at once", "address and account")
@pytest.mark.limit("work on logins", "node")
def test_logins_that_nobody_finishes_delay_no_other(node: NodeProcess) -> None:
    async def work() -> None:
        async with AsyncExitStack() as stack:
            bystander = await stack.enter_async_context(
                measured_bystander(node.endpoint, **BYSTANDER)
            )
            login = frame(unfinished_login("many"))
            held = await stack.enter_async_context(open_many(node.port, OF_ACCOUNT, login))
            other = frame(unfinished_login("more"))
            of_another = await stack.enter_async_context(open_many(node.port, 1, other))
            for each in (*held, *of_another):
                await each.await_bytes()
            before = await count_refused(node, Overloaded.code)
            async with open_many(node.port, FLOOD, login) as flood:
                await bystander.measure()
                for each in flood:
                    await each.read_to_end()
            assert await count_refused(node, Overloaded.code) == before + FLOOD
            assert not any(each.is_closed for each in (*held, *of_another))

    run_within(work())


@pytest.mark.limit("subscriptions", "client")
@pytest.mark.limit("namespaces of a query", "query")
def test_requests_of_a_client_are_bounded(node: NodeProcess) -> None:
    async def work() -> None:
        async with (
            measured_bystander(node.endpoint, **BYSTANDER) as bystander,
            connect(node.endpoint, **identity_of("many")) as client,
        ):
            namespaces = {"p": "n" * (MAX_NAMESPACES - 1)}
            await client.subscribe("//p:a", "many", namespaces=namespaces)
            with pytest.raises(BadQuery):
                await client.subscribe("//p:a", "many", namespaces=namespaces | {"q": ""})
            for _ in range(SUBSCRIPTIONS - 1):
                await client.subscribe("true()", "many")
            with pytest.raises(TooManySubscriptions):
                await client.subscribe("true()", "many")
            await bystander.measure()

    run_within(work())


@pytest.mark.limit("document", "event")
def test_a_document_has_a_bounded_size(node: NodeProcess) -> None:
    async def codes(session: RawSession, number: int, document: bytes) -> list[str]:
        await session.send(encode_batch(number, [document]))
        while not isinstance(answer := await session.receive(), Published):
            pass
        return [error[0] for _, error in answer.refused]

    def document(incarnation: int, number: int, size: int) -> bytes:
        event_id = EventId("more-9", 1, number, incarnation)
        payload = flight(number, filling="x" * LARGE)
        short = len(write_event(event_id, "many", FLIGHT, payload))
        payload = flight(number, filling="x" * (LARGE + size - short))
        return write_event(event_id, "many", FLIGHT, payload)

    async def work() -> None:
        async with measured_bystander(node.endpoint, **BYSTANDER) as bystander:
            session = await RawSession.open(node.port, "more-9", SECRET, "more")
            for number, size, found in ((1, MAX_EVENT, []), (2, MAX_EVENT + 1, [TooLarge.code])):
                sent = document(session.incarnation, number, size)
                assert len(sent) == size
                assert await codes(session, number, sent) == found
            await bystander.measure()
            session.close()

    run_within(work())


@pytest.mark.limit("frame", "connection")
def test_a_frame_has_a_bounded_size(node: NodeProcess) -> None:
    async def work() -> None:
        async with measured_bystander(node.endpoint, **BYSTANDER) as bystander:
            for size, error in ((MAX_FRAME, ProtocolError), (MAX_FRAME + 1, FrameTooLarge)):
                session = await RawSession.open(node.port, "more-9", SECRET, "more")
                with contextlib.suppress(ConnectionError):
                    await session.send_packet(bytes(size))
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    while True:
                        await session.receive()
                session.close()
                status = await ask_status(node.endpoint, **ADMINISTRATOR)
                assert status["broken_connections"].get(error.code) == 1
            await bystander.measure()

    run_within(work())


@pytest.mark.limit("queue of a slow client", "session")
def test_a_full_queue_loses_the_oldest_events(node: NodeProcess) -> None:
    async def work() -> None:
        async with (
            measured_bystander(node.endpoint, **BYSTANDER) as bystander,
            connect(node.endpoint, **identity_of("more")) as publisher,
        ):
            for extra in (0, 5):
                slow = await RawSession.open(node.port, f"many-{extra}", SECRET, "many")
                await slow.subscribe(1, "many")
                # It uses up the credit.
                large = flight(1, filling="x" * INITIAL_CREDIT)
                await publisher.publish("many", large, FLIGHT)
                while not isinstance(await slow.receive(), bytes):
                    pass
                for number in range(QUEUED + extra):
                    await publisher.publish("many", flight(number), FLIGHT)
                await slow.send(messages.encode(Credit(1 << 40)))
                lost = 0
                while not isinstance(message := await slow.receive(), bytes):
                    lost += message.count if isinstance(message, Gap) else 0
                assert lost == extra
                slow.close()
            await bystander.measure()

    run_within(work())
