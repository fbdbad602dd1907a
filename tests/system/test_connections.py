"""The asyncio and the Twisted API of the client library, over connections that break."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from broker.client import asyncio_face, twisted_face
from broker.client.client import Client
from broker.client.received import ReceivedEvent
from broker.client.subscription import Subscription
from broker.errors import Closed, GaveUp, NotConnected
from broker.event.event_id import EventId
from broker.event.writer import write_event
from examples.free_ports import free_port
from tests.seeds import seeds
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.proxy import Proxy, unanswering_port
from tests.system.traffic import FLIGHT, Inbox, ask_status, flight, run_within

pytestmark = pytest.mark.system

Connect = Callable[..., Client]
EVENTS = 400


async def take_events(subscription: Subscription, count: int) -> list[ReceivedEvent]:
    events = []
    async for event in subscription:
        events.append(event)
        if len(events) == count:
            break
    return events


async def publish_and_read_through_cuts(
    connect: Connect, proxy: Proxy, seed: int, durable: str
) -> None:
    sizes = random.Random(seed)
    proxy.cut_after(*(sizes.choice((20, 200, 2_000, 20_000, 60_000)) for _ in range(12)))
    # A cut within the first frame counts as a failure, with a longer backoff.
    publisher = connect(f"tcp:127.0.0.1:{proxy.port}", longest_wait=0.5)
    subscriber = connect(f"tcp:127.0.0.1:{proxy.port}", longest_wait=0.5)
    subscription = await subscriber.subscribe("true()", f"cut.{seed}", durable=durable)
    receipts = []
    for start in range(0, EVENTS, 100):
        waiting = [
            publisher.publish(f"cut.{seed}", flight(n), FLIGHT) for n in range(start, start + 100)
        ]
        receipts += [await one for one in waiting]
        proxy.cut()
    events = await take_events(subscription, EVENTS)
    assert [event.event_id for event in events] == [receipt.event_id for receipt in receipts]
    assert not subscription.gaps
    # Nothing repeats.
    last = await publisher.publish(f"cut.{seed}", flight(0), FLIGHT)
    assert [event.event_id for event in await take_events(subscription, 1)] == [last.event_id]
    assert proxy.accepted > 6
    await publisher.close()
    await subscriber.close()


async def connect_to_the_next_endpoint(connect: Connect, port: int) -> None:
    """The first endpoint refuses, the second is invalid, the third serves."""
    client = connect(f"tcp:127.0.0.1:{free_port()}", "tcp:127.0.0.1:99999", f"tcp:127.0.0.1:{port}")
    receipt = client.publish("endpoints", flight(1), FLIGHT)
    assert client.unacknowledged == 1
    assert not client.connected
    await client.when_connected(PATIENCE)
    assert client.last_error is None
    assert (await receipt).place is not None
    assert client.unacknowledged == 0
    await client.close()


async def give_up_connecting(connect: Connect) -> None:
    client = connect(f"tcp:127.0.0.1:{free_port()}")
    with pytest.raises(GaveUp, match="Errno 111|refused"):
        await client.when_connected(0.3)
    assert isinstance(client.last_error, NotConnected)
    lost = client.publish("nowhere", flight(1), FLIGHT)
    subscription = client.subscribe("true()")
    await client.close()
    for waiting in (lost, subscription):
        with pytest.raises(Closed):
            await waiting
    with pytest.raises(Closed):
        client.publish("nowhere", flight(1), FLIGHT)
    await client.close()


async def close_while_dialling(connect: Connect, port: int) -> None:
    client = connect(f"tcp:127.0.0.1:{port}")
    with pytest.raises(GaveUp):
        await client.when_connected(0.1)
    await client.close()


async def run_pending_callbacks() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def run_with_asyncio(work: Callable[..., Awaitable[None]], *args: Any) -> None:
    threads = threading.active_count()

    async def checked() -> None:
        await work(asyncio_face.connect, *args)
        await run_pending_callbacks()
        assert asyncio.all_tasks() - {asyncio.current_task()} == set()

    run_within(checked(), debug=True)
    # Threads for name resolution end with the loop.
    assert threading.active_count() <= threads


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_session_resumes_without_gap_or_duplicate(seed: int, shared_node: NodeProcess) -> None:
    with Proxy(shared_node.port) as proxy:
        run_with_asyncio(publish_and_read_through_cuts, proxy, seed, "" if seed % 2 else "cut")


@pytest.mark.parametrize("durable", ["", "cut"], ids=["transient", "durable"])
def test_new_session_continues_without_gap_or_duplicate(durable: str, tmp_path: Path) -> None:
    with (
        NodeProcess(tmp_path, "[limits]\nsession_lease = 0.0\n") as node,
        Proxy(node.port) as proxy,
    ):
        run_with_asyncio(publish_and_read_through_cuts, proxy, 7, durable)


def test_client_tries_each_endpoint_and_the_outbox_waits(shared_node: NodeProcess) -> None:
    run_with_asyncio(connect_to_the_next_endpoint, shared_node.port)


def test_client_that_gives_up_reports_the_cause_and_fails_requests() -> None:
    run_with_asyncio(give_up_connecting)


def test_client_can_be_closed_while_dialling() -> None:
    with unanswering_port() as port:
        run_with_asyncio(close_while_dialling, port)


class TwistedFaceTests(TestCase):
    """Trial checks that the reactor is clean."""

    timeout = 60

    @pytest.fixture(autouse=True)
    def _use_node(self, shared_node: NodeProcess) -> None:
        self.node = shared_node

    def connect(self, *endpoints: str, **arguments: Any) -> Client:
        return twisted_face.connect(*endpoints, reactor=reactor, **arguments)

    async def test_session_resumes_without_gap_or_duplicate(self) -> None:
        with Proxy(self.node.port) as proxy:
            await publish_and_read_through_cuts(self.connect, proxy, 11, "twisted")

    async def test_client_tries_each_endpoint_and_the_outbox_waits(self) -> None:
        await connect_to_the_next_endpoint(self.connect, self.node.port)

    async def test_client_that_gives_up_reports_the_cause_and_fails_requests(self) -> None:
        await give_up_connecting(self.connect)

    async def test_client_can_be_closed_while_dialling(self) -> None:
        with unanswering_port() as port:
            await close_while_dialling(self.connect, port)

    async def test_awaitables_are_deferreds(self) -> None:
        client = self.connect(self.node.endpoint)
        connected = client.when_connected(PATIENCE)
        assert isinstance(connected, Deferred)
        await connected
        await client.close()


def test_reconnection_backoff_stays_within_its_bounds() -> None:
    async def work() -> None:
        moments: list[float] = []
        enough = asyncio.Event()

        def closing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            moments.append(time.monotonic())
            writer.transport.abort()
            if len(moments) == 5:
                enough.set()

        server = await asyncio.start_server(closing, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, asyncio_face.connect(f"tcp:127.0.0.1:{port}"):
            await enough.wait()
        waits = [later - earlier for earlier, later in zip(moments, moments[1:], strict=False)]
        for bound, wait in zip((0.1, 0.2, 0.4, 0.8), waits, strict=True):
            # A loaded machine may be late, never early.
            assert bound / 2 - 0.02 <= wait <= bound + 1.0

    run_within(work())


def test_closing_a_client_ends_its_session_at_once(shared_node: NodeProcess) -> None:
    async def work() -> None:
        async with asyncio_face.connect(shared_node.endpoint, client_id="polite") as client:
            inbox = Inbox(await client.subscribe("true()", "polite", durable="d"))
            receipt = await client.publish("polite", flight(1), FLIGHT)
            await inbox.wait_for_receipts([receipt])
            await inbox.close()
        status = await ask_status(shared_node.endpoint)
        assert "polite" not in {session["client"] for session in status["sessions"]}
        async with asyncio_face.connect(shared_node.endpoint, client_id="polite") as client:
            subscription = await client.subscribe("true()", "polite", durable="d")
            again = await client.publish("polite", flight(2), FLIGHT)
            (event,) = await take_events(subscription, 1)
            assert event.event_id == again.event_id

    run_within(work())


def test_event_of_the_largest_size_passes(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        async with asyncio_face.connect(node.endpoint) as client:
            inbox = Inbox(await client.subscribe("true()", "largest"))
            around = len(write_event(EventId(client.client_id, 1, 1, 1), "s", FLIGHT, flight(1)))
            payload = flight(1, filling="x" * ((1 << 20) - around - 100))
            receipt = await client.publish("largest", payload, FLIGHT)
            await inbox.wait_for_receipts([receipt])
            await inbox.close()
            assert len(inbox.events[0].document) > (1 << 20) - 200

    limits = '[limits]\nmax_event_bytes = "1MiB"\nmax_frame_bytes = "1MiB"\n'
    with NodeProcess(tmp_path, limits) as node:
        run_within(work(node), 30)


def test_events_larger_than_the_clients_window_pass_both_ways(tmp_path: Path) -> None:
    limits = (
        '[limits]\nmax_event_bytes = "12MiB"\nmax_frame_bytes = "32MiB"\nwindow_bytes = "16MiB"\n'
    )

    async def work(node: NodeProcess) -> None:
        async with asyncio_face.connect(node.endpoint) as client:
            inbox = Inbox(await client.subscribe("true()", "large"))
            large = flight(1, filling="x" * (9 << 20))
            waiting = [
                client.publish("large", payload, FLIGHT)
                for payload in (flight(0), large, flight(2), large, flight(4))
            ]
            receipts = await asyncio.gather(*waiting)
            await inbox.wait_for_receipts(receipts)
            await inbox.close()
            assert inbox.ids == [receipt.event_id for receipt in receipts]

    with NodeProcess(tmp_path, limits) as node:
        run_within(work(node), 30)
