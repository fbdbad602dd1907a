"""Clients that exceed limits, forge identities or do not read."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client.asyncio_face import connect
from broker.client.received import since
from broker.errors import (
    AuthenticationFailed,
    BadName,
    BadPosition,
    BadQuery,
    BrokerError,
    ClearanceTooLow,
    IncarnationRefused,
    NotAllowed,
    PeerSilent,
    QueryTooExpensive,
    SessionSuperseded,
    TooManySessions,
    TooManySubscriptions,
)
from broker.event.envelope import EventType, SecurityLevel
from broker.event.place import Position
from broker.identity import hash_secret
from broker.wire import messages
from tests.capability import need
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.raw_session import RawSession, connect_and_read_refusal, hello
from tests.system.traffic import FLIGHT, Inbox, ask_status, checked_bystander, flight, run_within

pytestmark = pytest.mark.system

# --------------------------------------------------------------------------- subscriptions


@pytest.mark.parametrize(
    ("query", "position"),
    [
        ("/flight[altitude >", 19),
        ("/flight]", 8),
        ("", 1),
        ("/flight['unended]", 9),
        ("/flight[unknown-function()]", 9),
        ("/flight[unbound:id]", 9),
        ("/flight[$NoSuchVariable]", 9),
        ("document('file:///etc/passwd')", 1),
        ("/flight[" * 2000, 0),
    ],
    ids=["cut", "bracket", "empty", "quote", "function", "prefix", "variable", "document", "deep"],
)
def test_invalid_query_is_refused_with_its_position(
    query: str, position: int, shared_node: NodeProcess
) -> None:
    async def work() -> None:
        async with checked_bystander(shared_node.endpoint), connect(shared_node.endpoint) as client:
            with pytest.raises(BadQuery) as refused:
                await client.subscribe(query)
            if position:
                assert refused.value.column == position
            await (await client.subscribe("true()")).flowing

    run_within(work())


@pytest.mark.parametrize(
    "query",
    [
        "//*[count(//*[count(//*[count(//*) > 1]) > 1]) > 1]",
        "count(//*//*//*//*//*//*) > 5",
        "true()" + " or true()" * 1000,
    ],
)
def test_too_expensive_query_is_refused(query: str, shared_node: NodeProcess) -> None:
    async def work() -> None:
        async with checked_bystander(shared_node.endpoint), connect(shared_node.endpoint) as client:
            with pytest.raises(BadQuery) as refused:
                await client.subscribe(query)
            assert isinstance(refused.value, QueryTooExpensive) or "long" in str(refused.value)

    run_within(work())


def test_names_with_path_parts_are_refused_everywhere(shared_node: NodeProcess) -> None:
    async def work() -> None:
        async with checked_bystander(shared_node.endpoint), connect(shared_node.endpoint) as client:
            for pattern in ("../../etc", "a/b", "", "a..b", "a.>.b", "a*", "\0"):
                with pytest.raises(BadName):
                    await client.subscribe("true()", pattern)
            for durable in ("../x", "a/b", "x" * 65, "a b"):
                with pytest.raises(BadName):
                    await client.subscribe("true()", durable=durable)
        for client_id in ("../x", "a/b", "x" * 65):
            with pytest.raises(BadName):
                connect(shared_node.endpoint, client_id=client_id)
            error = await connect_and_read_refusal(
                shared_node.port, [messages.encode(hello(client_id))]
            )
            assert isinstance(error, BadName)

    run_within(work())


def test_position_from_the_future_is_refused(shared_node: NodeProcess) -> None:
    async def work() -> None:
        async with checked_bystander(shared_node.endpoint), connect(shared_node.endpoint) as client:
            await client.when_connected(PATIENCE)
            assert client.welcome is not None
            future = Position({client.welcome.origin: ((1 << 32) - 1, 1_000_000)})
            with pytest.raises(BadPosition):
                await client.subscribe("true()", start=since(future))

    run_within(work())


def test_subscriptions_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        async with checked_bystander(node.endpoint), connect(node.endpoint) as client:
            for _ in range(3):
                await client.subscribe("true()")
            with pytest.raises(TooManySubscriptions):
                await client.subscribe("true()")

    with NodeProcess(tmp_path, "[limits]\nmax_subscriptions_per_client = 3\n") as node:
        run_within(work(node))


# --------------------------------------------------------------------------- identity


def test_second_process_of_a_client_takes_over_or_is_refused(shared_node: NodeProcess) -> None:
    async def work() -> None:
        async with checked_bystander(shared_node.endpoint):
            async with connect(shared_node.endpoint, client_id="twin") as older:
                await older.when_connected(PATIENCE)
                ended: asyncio.Future[BrokerError | None] = asyncio.Future()
                older.on_state = lambda up, error: None if ended.done() else ended.set_result(error)
                for incarnation in (older.incarnation, older.incarnation - 1):
                    error = await connect_and_read_refusal(
                        shared_node.port, [messages.encode(hello("twin", incarnation))]
                    )
                    assert isinstance(error, IncarnationRefused)
                assert older.connected
                async with connect(shared_node.endpoint, client_id="twin") as newer:
                    await newer.when_connected(PATIENCE)
                    assert isinstance(await ended, SessionSuperseded)
                    with pytest.raises(SessionSuperseded):
                        older.publish("twin", flight(1), FLIGHT)
                    await newer.publish("twin", flight(1), FLIGHT)
            error = await connect_and_read_refusal(
                shared_node.port, [messages.encode(hello("twin", older.incarnation))]
            )
            assert isinstance(error, IncarnationRefused)

    run_within(work())


@pytest.fixture(scope="module")
def guarded_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    configuration = f"""
[accounts.feed]
secret = "{hash_secret("feed's secret")}"
client_ids = ["feed", "feed-*"]
publish = ["open.>"]
clearance = "med"

[accounts.reader]
secret = "{hash_secret("reader's secret")}"
subscribe = ["open.>"]
clearance = "low"

[accounts.keeper]
secret = "{hash_secret("keeper's secret")}"
publish = [">"]
subscribe = [">"]
clearance = "high"
administer = true
"""
    with NodeProcess(tmp_path_factory.mktemp("guarded"), configuration) as node:
        yield node
        assert "Traceback" not in node.log()
        for secret in ("feed's secret", "reader's secret", "keeper's secret", "guess"):
            assert secret not in node.log()


ADMIN: dict[str, Any] = {"account": "keeper", "secret": "keeper's secret"}


@pytest.mark.parametrize(
    ("account", "secret"),
    [("", ""), ("feed", ""), ("feed", "guess"), ("nobody", "guess"), ("feed", "x" * 3000)],
    ids=["none", "no-secret", "wrong-secret", "unknown-account", "long-secret"],
)
def test_wrong_or_missing_credential_is_refused_for_good(
    account: str, secret: str, guarded_node: NodeProcess
) -> None:
    async def work() -> None:
        code = AuthenticationFailed.code
        before = (await ask_status(guarded_node.endpoint, **ADMIN))["refused_connections"]
        async with checked_bystander(guarded_node.endpoint, **ADMIN, client_id="keeper"):
            client = connect(
                guarded_node.endpoint, client_id="feed", account=account, secret=secret
            )
            with pytest.raises(AuthenticationFailed) as refused:
                await client.when_connected(PATIENCE)
            # The error does not say which part was wrong.
            assert "wrong, or none was given" in str(refused.value)
            with pytest.raises(AuthenticationFailed):
                client.publish("open.a", flight(1), FLIGHT)
            await client.close()
        after = (await ask_status(guarded_node.endpoint, **ADMIN))["refused_connections"]
        assert after[code] == before.get(code, 0) + 1

    run_within(work())


def test_account_has_only_its_own_client_ids_and_rights(guarded_node: NodeProcess) -> None:
    feed: dict[str, Any] = {"account": "feed", "secret": "feed's secret"}
    reader: dict[str, Any] = {"account": "reader", "secret": "reader's secret"}

    async def work() -> None:
        for client_id in ("reader", "keeper", "feedx"):
            client = connect(guarded_node.endpoint, client_id=client_id, **feed)
            with pytest.raises(NotAllowed):
                await client.when_connected(PATIENCE)
            await client.close()
        async with (
            connect(guarded_node.endpoint, client_id="feed-2", **feed) as publisher,
            connect(guarded_node.endpoint, **reader) as subscriber,
            connect(guarded_node.endpoint, **ADMIN) as admin,
        ):
            await asyncio.gather(
                *(client.when_connected(PATIENCE) for client in (publisher, subscriber, admin))
            )
            low = EventType("flight", "1.0", security_level=SecurityLevel.LOW)
            high = EventType("flight", "1.0", security_level=SecurityLevel.HIGH)
            for pattern in (">", "closed.a", "*"):
                with pytest.raises(NotAllowed):
                    await subscriber.subscribe("true()", pattern)
            with pytest.raises(NotAllowed):
                await subscriber.publish("open.a", flight(1), low)
            with pytest.raises(NotAllowed):
                await publisher.publish("closed.a", flight(1), low)
            with pytest.raises(ClearanceTooLow):
                await publisher.publish("open.a", flight(1), high)
            with pytest.raises(NotAllowed):
                await publisher.ask("status")
            cleared = Inbox(await admin.subscribe("true()", "open.>"))
            limited = Inbox(await subscriber.subscribe("true()", "open.>"))
            receipts = [
                await publisher.publish("open.a", flight(1), FLIGHT),
                await publisher.publish("open.a", flight(2), low),
                await admin.publish("open.a", flight(3), high),
                await publisher.publish("open.a", flight(4), low),
            ]
            await cleared.wait_for_receipts(receipts)
            await limited.wait_for_receipts([receipts[1], receipts[3]])
            assert len(limited.events) == 2
            await cleared.close()
            await limited.close()

    run_within(work())


# --------------------------------------------------------------------------- limits and slowness


def test_client_that_never_reads_costs_bounded_memory_and_no_delay(tmp_path: Path) -> None:
    configuration = '[queue]\nevents = 500\nbytes = "2MiB"\n[limits]\nwindow_bytes = "1MiB"\n'
    events, filling = 1500, "x" * 20_000

    async def work(node: NodeProcess) -> None:
        before = await ask_status(node.endpoint)
        async with connect(node.endpoint) as publisher, connect(node.endpoint) as subscriber:
            silent_sessions = [
                await RawSession.open(node.port, f"deaf-{number}") for number in range(3)
            ]
            for session in silent_sessions:
                await session.subscribe(1, "flood")
            inbox = Inbox(await subscriber.subscribe("true()", "flood"))
            latest = 0.0
            for _ in range(events // 50):
                began = time.monotonic()
                receipts = await asyncio.gather(
                    *(
                        publisher.publish("flood", flight(n, filling=filling), FLIGHT)
                        for n in range(50)
                    )
                )
                await inbox.wait_until(lambda: inbox.events[-1:] != [])
                last = receipts[-1].event_id
                await inbox.wait_until(lambda: inbox.events[-1].event_id == last)  # noqa: B023
                latest = max(latest, time.monotonic() - began)
            assert len(inbox.events) == events
            assert latest < 5.0
            after = await ask_status(node.endpoint)
            slow = [each for each in after["sessions"] if each["client"].startswith("deaf")]
            assert len(slow) == 3
            for each in slow:
                assert 0 < each["queued_bytes"] <= 2 << 20
                assert each["queued_events"] <= 500
                (subscription,) = each["subscriptions"]
                assert subscription["dropped"] > 0
                counted = ("delivered", "filtered", "denied", "dropped")
                waiting = each["queued_events"]
                assert subscription["seen"] == sum(subscription[k] for k in counted) + waiting
            # Three queues, windows and socket buffers; 1,500 events are 30 MB for each session.
            grown = after["memory"]["private_bytes"] - before["memory"]["private_bytes"]
            assert grown < 60 << 20
            for session in silent_sessions:
                session.close()
            await inbox.close()

    with NodeProcess(tmp_path, configuration) as node:
        run_within(work(node))


def test_node_serves_after_thousands_of_silent_connections(
    tmp_path: Path,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = 2000
    need("many-files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 200), hard))
    # The limit is reached before the first timeouts, also on a slow machine.
    limits = "[limits]\nmax_handshakes = 500\nhandshake_timeout = 4.0\n"

    async def work(node: NodeProcess) -> None:
        open_at_once = asyncio.Semaphore(50)

        async def silent() -> bytes:
            async with open_at_once:
                reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
            try:
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.transport.abort()

        async with checked_bystander(node.endpoint) as other:
            flood = [asyncio.create_task(silent()) for _ in range(count)]
            await other.check_traffic()
            answers = await asyncio.gather(*flood)
            # A reset may overtake the reason, so the node's counters are checked below.
            reasons = (TooManySessions.code.encode(), PeerSilent.code.encode())
            reasons_received = [each for each in answers if each]
            assert reasons_received and all(
                any(reason in each for reason in reasons) for each in reasons_received
            )
        async with connect(node.endpoint) as good:
            await good.publish("good", flight(1), FLIGHT)
        status = await ask_status(node.endpoint)
        refused = status["refused_connections"]
        assert refused[PeerSilent.code] >= 500
        assert refused[TooManySessions.code] > 0
        assert refused[PeerSilent.code] + refused[TooManySessions.code] >= count

    try:
        with NodeProcess(tmp_path, limits) as node:
            run_within(work(node))
            assert "Traceback" not in node.log()
            files = len(os.listdir(f"/proc/{node.process.pid}/fd"))
            assert files < 100
    finally:
        with contextlib.suppress(ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
